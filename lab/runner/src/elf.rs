// SPDX-License-Identifier: Apache-2.0
//! Linkage of an executable: a node has no libraries that a production binary could rely on.

/// Linkage of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linkage {
    /// Static: no interpreter.
    Static,
    /// Dynamic, with this interpreter.
    Dynamic(String),
}

/// Malformed or foreign executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// No ELF magic, or a class or byte order that no target of ours has.
    #[error("not a 64-bit little-endian ELF file")]
    NotElf,
    /// A header points outside the file.
    #[error("a truncated ELF file")]
    Truncated,
}

/// `PT_INTERP` of the ELF specification.
const PT_INTERP: u32 = 3;

/// Looks for a `PT_INTERP` program header.
pub fn linkage(bytes: &[u8]) -> Result<Linkage, ElfError> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err(ElfError::NotElf);
    }
    let table = usize_at(bytes, 32)?;
    let size = usize::from(u16::from_le_bytes(array_at(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(array_at(bytes, 56)?));
    for index in 0..count {
        let header = table + index * size;
        if u32::from_le_bytes(array_at(bytes, header)?) == PT_INTERP {
            let start = usize_at(bytes, header + 8)?;
            let length = usize_at(bytes, header + 32)?;
            let name = bytes.get(start..start.saturating_add(length)).ok_or(ElfError::Truncated)?;
            return Ok(Linkage::Dynamic(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(Linkage::Static)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ElfError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(ElfError::Truncated)
}

fn usize_at(bytes: &[u8], at: usize) -> Result<usize, ElfError> {
    usize::try_from(u64::from_le_bytes(array_at(bytes, at)?)).map_err(|_| ElfError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header with one program header of this type, whose contents are `/lib/ld.so\0`.
    fn elf(kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&1_u16.to_le_bytes());
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes[72..80].copy_from_slice(&120_u64.to_le_bytes());
        bytes[96..104].copy_from_slice(&11_u64.to_le_bytes());
        bytes.extend_from_slice(b"/lib/ld.so\0");
        bytes
    }

    #[test]
    fn an_interpreter_makes_it_dynamic() {
        assert_eq!(linkage(&elf(PT_INTERP)), Ok(Linkage::Dynamic("/lib/ld.so".to_owned())));
    }

    #[test]
    fn no_interpreter_makes_it_static() {
        assert_eq!(linkage(&elf(1)), Ok(Linkage::Static));
    }

    #[test]
    fn a_script_and_a_cut_file_are_told_apart() {
        assert_eq!(linkage(b"#!/bin/sh\n"), Err(ElfError::NotElf));
        assert_eq!(linkage(&elf(PT_INTERP)[..70]), Err(ElfError::Truncated));
    }

    #[test]
    fn this_test_is_itself_an_executable_that_can_be_judged() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        assert!(linkage(&bytes).is_ok());
    }
}
