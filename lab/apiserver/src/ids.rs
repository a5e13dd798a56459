// SPDX-License-Identifier: Apache-2.0
//! Names, uids and tokens from a seed, so that a run can be repeated exactly. Secrets of a lab, not of a cluster.

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Ids(u64);

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff,
        )
    }

    /// Five characters after a `generateName`, from the alphabet that the real server uses.
    pub(crate) fn suffix(&mut self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        let mut pick = || {
            let index = bits % 27;
            bits /= 27;
            char::from(ALPHABET.get(usize::try_from(index).unwrap_or(0)).copied().unwrap_or(b'x'))
        };
        std::iter::repeat_with(&mut pick).take(5).collect()
    }

    /// A bearer token.
    pub(crate) fn token(&mut self) -> String {
        format!("lab-{:016x}{:016x}{:016x}", self.next(), self.next(), self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn a_seed_repeats_and_uids_are_version_4() {
        let uid = Ids::new(7).uid();
        assert_eq!(uid, Ids::new(7).uid());
        assert_ne!(uid, Ids::new(8).uid());
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(uid[14..].starts_with('4') && "89ab".contains(&uid[19..20]), "{uid}");
    }
}
