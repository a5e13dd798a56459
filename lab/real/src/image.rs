// SPDX-License-Identifier: Apache-2.0
//! Images (OCI image specification 1.1): one layer, a configuration, a manifest; made of files, or read from an archive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image: its manifest, and everything by digest.
#[derive(Debug, Clone)]
pub struct Image {
    /// Name and tag, without a registry.
    pub name: String,
    /// Digest of the manifest.
    pub manifest: String,
    pub blobs: BTreeMap<String, Vec<u8>>,
}

impl Image {
    /// An image of programs, by their paths in it; without arguments it runs `entrypoint`.
    ///
    /// # Errors
    /// A program cannot be read.
    pub fn of(name: &str, programs: &[(&str, PathBuf)], entrypoint: &[&str]) -> Result<Self, Error> {
        let mut layer = tar::Builder::new(Vec::new());
        for (at, path) in programs {
            let content = fs::read(path).map_err(Error::file("read", path))?;
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o755);
            header.set_size(content.len() as u64);
            let written = layer.append_data(&mut header, at.trim_start_matches('/'), content.as_slice());
            written.map_err(|source| Error::System("write a layer", source))?;
        }
        let layer = layer.into_inner().map_err(|source| Error::System("write a layer", source))?;
        let mut blobs = BTreeMap::new();
        let layer = put(&mut blobs, LAYER, layer);
        // A layer that is not compressed has the digest of its files.
        let (diff, layers) = (layer["digest"].clone(), json!([layer]));
        let config = json!({
            "architecture": cluster::architecture(),
            "os": "linux",
            "config": { "Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [diff] },
        });
        let config = put(&mut blobs, CONFIG, config.to_string().into_bytes());
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
        let manifest = put(&mut blobs, MANIFEST, manifest.to_string().into_bytes());
        let manifest = manifest["digest"].as_str().unwrap_or_default().to_owned();
        Ok(Self { name: name.to_owned(), manifest, blobs })
    }

    /// An image of an archive with an OCI layout, which is there once.
    ///
    /// # Errors
    /// It is none.
    pub fn from_archive(name: &str, path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::file("open", path))?;
        let mut archive = tar::Archive::new(file);
        let (mut blobs, mut index) = (BTreeMap::new(), Value::Null);
        for entry in archive.entries().map_err(Error::file("read", path))? {
            let mut entry = entry.map_err(Error::file("read", path))?;
            let at = entry.path().map_err(Error::file("read", path))?.to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(Error::file("read", path))?;
            let at = at.trim_start_matches("./");
            if at == "index.json" {
                index = serde_json::from_slice(&content).unwrap_or_default();
            } else if let Some(hash) = at.strip_prefix("blobs/sha256/").filter(|hash| !hash.is_empty()) {
                blobs.insert(format!("sha256:{hash}"), content);
            }
        }
        match index["manifests"][0]["digest"].as_str() {
            Some(manifest) if blobs.contains_key(manifest) => {
                Ok(Self { name: name.to_owned(), manifest: manifest.to_owned(), blobs })
            }
            _ => Err(Error::Other("read an image", format!("{} has no OCI layout", path.display()))),
        }
    }
}

/// Writes images to an archive (OCI image layout 1.1) under their names in a registry, which it returns. containerd takes a name from the
/// first annotation, Podman and skopeo from the second, and a Docker before 25 reads `manifest.json` alone, as `docker save` writes it.
///
/// # Errors
/// It cannot be written.
pub fn archive(images: &[Image], registry: &str, to: impl Write) -> Result<Vec<String>, Error> {
    let failed = |source| Error::System("write an archive of images", source);
    let mut archive = tar::Builder::new(to);
    let mut add = |at: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, at, content).map_err(failed)
    };
    add("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes())?;
    let (mut manifests, mut names, mut written) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut saved = Vec::new();
    for image in images {
        for (digest, blob) in &image.blobs {
            if written.insert(digest) {
                add(&place(digest), blob)?;
            }
        }
        let name = format!("{registry}/{}", image.name);
        let size = image.blobs.get(&image.manifest).map_or(0, Vec::len);
        let tag = image.name.rsplit(':').next().unwrap_or_default();
        let annotations =
            json!({ "io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag });
        manifests.push(
            json!({ "mediaType": MANIFEST, "digest": image.manifest, "size": size, "annotations": annotations }),
        );
        let manifest = image.blobs.get(&image.manifest).map(Vec::as_slice).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(manifest).unwrap_or_default();
        let at = |descriptor: &Value| place(descriptor["digest"].as_str().unwrap_or_default());
        let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let layers: Vec<_> = layers.iter().map(at).collect();
        saved.push(json!({ "Config": at(&manifest["config"]), "RepoTags": [name], "Layers": layers }));
        names.push(name);
    }
    add("manifest.json", Value::from(saved).to_string().as_bytes())?;
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    add("index.json", index.to_string().as_bytes())?;
    archive.finish().map_err(failed)?;
    Ok(names)
}

/// Path of a blob in an archive.
fn place(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

/// Adds a blob, and returns its descriptor.
fn put(blobs: &mut BTreeMap<String, Vec<u8>>, kind: &str, content: Vec<u8>) -> Value {
    let (digest, size) = (digest(&content), content.len());
    blobs.insert(digest.clone(), content);
    json!({ "mediaType": kind, "digest": digest, "size": size })
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of an archive.
    fn of_archive(path: &Path, name: &str) -> Vec<u8> {
        let mut archive = tar::Archive::new(File::open(path).unwrap());
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let mut found = entries.into_iter().find(|entry| entry.path().unwrap() == Path::new(name)).unwrap();
        let mut content = Vec::new();
        found.read_to_end(&mut content).unwrap();
        content
    }

    #[test]
    fn an_image_of_an_archive_is_the_one_that_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("p");
        fs::write(&program, "#!").unwrap();
        let image = Image::of("p:1", &[("/p", program)], &["/p"]).unwrap();
        let file = directory.path().join("images.tar");
        let names = archive(std::slice::from_ref(&image), "lab.local", File::create(&file).unwrap()).unwrap();
        assert_eq!(names, ["lab.local/p:1"]);
        let saved = of_archive(&file, "manifest.json");
        let saved: Value = serde_json::from_slice(&saved).unwrap();
        assert_eq!(saved[0]["RepoTags"], json!(["lab.local/p:1"]));
        let layer = of_archive(&file, saved[0]["Layers"][0].as_str().unwrap());
        assert!(layer.starts_with(b"p\0"), "it begins with the name of its first file");
        let config: Value =
            serde_json::from_slice(&of_archive(&file, saved[0]["Config"].as_str().unwrap())).unwrap();
        assert_eq!(config["config"]["Entrypoint"], json!(["/p"]));
        let read = Image::from_archive("p:1", &file).unwrap();
        assert_eq!((read.manifest, read.blobs), (image.manifest, image.blobs));
    }
}
