// SPDX-License-Identifier: Apache-2.0
//! One line each way: the protocol between client, proxy and app, and what a process prints for the kubelet.

use std::io::{self, Write as _};

use serde::Serialize;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

/// First message of a client. Its content is ignored.
pub const HELLO: &[u8] = b"{\"hello\":1}\n";

/// Message of a client that asks again on the same connection.
pub const AGAIN: &[u8] = b"{\"again\":1}\n";

/// The longest line anybody here reads; an answer has a few hundred bytes.
const LIMIT: u64 = 64 * 1024;

/// Reads one line without its end. An early end of the stream is an error.
pub async fn read(from: impl AsyncRead + Unpin) -> io::Result<String> {
    read_within(from, LIMIT).await
}

/// Reads one line of at most `limit` bytes.
pub async fn read_within(from: impl AsyncRead + Unpin, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    BufReader::new(from.take(limit)).read_line(&mut text).await?;
    if text.pop() != Some('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(text)
}

/// Writes a value as one line of JSON.
pub async fn write(mut to: impl AsyncWrite + Unpin, value: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(value)?).await?;
    to.flush().await
}

/// Encodes a value as one line of JSON.
pub fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Prints one line on standard output at once: a process' first line tells the kubelet that it is up.
pub fn announce(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_without_its_end_is_an_error() {
        assert_eq!(read(&b"one\ntwo\n"[..]).await.unwrap(), "one");
        assert_eq!(read(&b"one"[..]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(read_within(&b"too long\n"[..], 4).await.is_err());
    }
}
