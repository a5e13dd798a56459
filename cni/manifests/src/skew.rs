// SPDX-License-Identifier: Apache-2.0
//! Version skew of node agent and control plane: the same and neighbouring minor versions, in any order. Releases of ours are numbered apart
//! from control planes', so that versions of different majors are not compared.

/// Major and minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor {
    pub major: u32,
    pub minor: u32,
}

impl Minor {
    /// Reads a version or an image's tag such as `1.20`, `v1.20.3` or `1.20.3-distroless`. Nothing for tags that are no version.
    #[must_use]
    pub fn of(tag: &str) -> Option<Self> {
        let mut numbers = tag.strip_prefix('v').unwrap_or(tag).split(['.', '-']);
        let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(Self { major, minor })
    }
}

/// Version skew of two releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// Supported.
    Within,
    /// More than one minor version apart.
    Beyond,
    /// Numbered apart.
    Unknown,
}

/// Skew of a node agent against a control plane.
#[must_use]
pub fn judge(agent: Minor, control_plane: Minor) -> Skew {
    if agent.major != control_plane.major {
        return Skew::Unknown;
    }
    let near = agent.minor.abs_diff(control_plane.minor) <= 1;
    if near { Skew::Within } else { Skew::Beyond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_are_versions_are_read() {
        for (tag, want) in [
            ("1.20", Some((1, 20))),
            ("v1.9.3", Some((1, 9))),
            ("1.31-alpha.abc", Some((1, 31))),
            ("1.20.3-distroless", Some((1, 20))),
            ("latest", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(Minor::of(tag), want.map(|(major, minor)| Minor { major, minor }), "{tag}");
        }
    }

    #[test]
    fn one_minor_version_in_either_direction_is_fine() {
        let one = |minor| Minor { major: 1, minor };
        for (agent, plane, want) in [
            (20, 19, Skew::Within),
            (20, 20, Skew::Within),
            (20, 21, Skew::Within),
            (20, 18, Skew::Beyond),
            (20, 22, Skew::Beyond),
        ] {
            assert_eq!(judge(one(agent), one(plane)), want, "{agent} {plane}");
        }
        assert_eq!(judge(Minor { major: 0, minor: 1 }, one(28)), Skew::Unknown);
    }
}
