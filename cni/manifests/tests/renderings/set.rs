// SPDX-License-Identifier: Apache-2.0
//! Words of `--set` mean to us what they mean to Helm, and what Helm cannot read we do not read either.

use manifests::inputs::set;
use serde_json::{Value, json};

use crate::helm;

/// Assignments, each with the values below it.
fn words() -> Vec<(&'static str, Value)> {
    let over_nothing = [
        "a.b=1,a.c=x",
        "l={a,b},m=1",
        "l={1,true,007,null,0,-5,a b}",
        "l={},m={a,}",
        "x=TRUE,y=Null,z=+5,u=1.5,v=9223372036854775808",
        "a[1]=x,a[0]={y,z}",
        "a[0].b=c,a[0].d[1].e=f",
        "a[0][1]=x,a[0]=,b=2",
        r"a\[0\]=1,b\.c.d=2,e\,f=a\,b",
        r"l={a\,b,c\}},m=x\\y",
        "a=b=c,d=e[0].f",
        "l={a}b=1,c={}",
        "a.b=1,a=2",
        "a=1,",
        "a[0]=1,a[0].b=2",
        "a",
        "a,b=1",
        "a..b=1",
        "a[x]=1",
        "a[-1]=1",
        "a[65537]=1",
        "a[0",
        "a[0]x=1",
        "l={a",
        "a=2,a.b=1",
        "a=1,a[0]=2",
        "l={a}x",
    ];
    let list = json!({ "tolerations": [{ "key": "a" }, { "key": "b" }] });
    let over_lists = ["tolerations[0].operator=Exists", "tolerations[1]=x,tolerations[3]=y", "tolerations=z"];
    let mut all: Vec<_> = over_nothing.into_iter().map(|word| (word, json!({}))).collect();
    all.extend(over_lists.into_iter().map(|word| (word, list.clone())));
    all
}

/// Both have the same result.
pub(crate) fn check() -> Result<(), String> {
    let words = words();
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (word, values) in &words {
        let mut ours = values.clone();
        let ours = set::apply(&mut ours, word).map(|()| ours);
        match (ours, helm::set(word, values)) {
            (Ok(ours), Ok(theirs)) if ours == theirs => read += 1,
            (Err(_), Err(_)) => {}
            (ours, theirs) => wrong.push(format!("{word}: ours is {ours:?}, Helm's {theirs:?}")),
        }
    }
    let refused = words.len() - read;
    if wrong.is_empty() && read > 0 && refused > 0 {
        return Ok(());
    }
    Err(wrong.join("\n"))
}
