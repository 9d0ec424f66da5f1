//! Collects the descriptions of Kubernetes' types, which `kubectl explain` prints, from the sources of `k8s-openapi`.
//!
//! The sources are those that this build compiles anyway; Cargo says where they are. Each of their types has a JSON
//! schema with the texts. Without the sources (a build from vendored crates that are laid out in another way) the
//! binary has no descriptions, and everything else works.
//!
//! The script reads and writes JSON by itself: a crate for it would be compiled once more for the machine that builds.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of Kubernetes whose API the server serves, as a module of `k8s-openapi`.
const VERSION: &str = "v1_36";
/// The indentation of a type's own description, and of the names of its fields, in the sources.
const OWN: &str = "            \"description\": ";
const FIELD: &str = "                \"";
/// miniz_oxide's best ratio. The texts are compressed once for each change of the dependency.
const LEVEL: u8 = 10;

/// The texts, each once, and the place of each.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Texts {
    fn place(&mut self, text: String) -> usize {
        let next = self.all.len();
        *self.places.entry(text).or_insert_with_key(|text| {
            self.all.push(text.clone());
            next
        })
    }
}

/// The places of the texts of one type.
#[derive(Default)]
struct Described {
    own: Option<usize>,
    fields: BTreeMap<String, usize>,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let (mut texts, mut types) = (Texts::default(), BTreeMap::new());
    let collected = sources().and_then(|folder| collect(&folder, &mut texts, &mut types));
    if let Err(error) = collected {
        println!("cargo::warning=kubectl explain will have no descriptions: {error}");
    }
    let bytes = miniz_oxide::deflate::compress_to_vec(print(&texts, &types).as_bytes(), LEVEL);
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    fs::write(folder.join("descriptions"), bytes).expect("Cargo's output folder is writable");
}

/// The folder with the sources of `k8s-openapi` for [`VERSION`].
fn sources() -> Result<PathBuf, Box<dyn Error>> {
    match registry_sources() {
        Some(folder) => Ok(folder),
        None => sources_by_metadata(),
    }
}

/// The sources in Cargo's registry, which has them unpacked because this build compiles them.
///
/// Cargo itself cannot be asked first: `cargo metadata` wants the crates of all platforms and of all tests of the
/// workspace, which a machine that builds the binary for the first time has not downloaded.
fn registry_sources() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    let crate_folder = format!("k8s-openapi-{}", locked_version()?);
    let registries = fs::read_dir(home.join("registry").join("src")).ok()?;
    let folders = registries
        .filter_map(|registry| Some(registry.ok()?.path().join(&crate_folder).join("src").join(VERSION)));
    folders.filter(|folder| folder.is_dir()).min()
}

/// The version of `k8s-openapi` in the lock file of the workspace, or of the package where it is built alone.
fn locked_version() -> Option<String> {
    let lock = ["../../Cargo.lock", "Cargo.lock"].iter().find_map(|path| fs::read_to_string(path).ok())?;
    let package = lock.split_once("name = \"k8s-openapi\"\nversion = ")?.1;
    literal(package)
}

/// The sources where Cargo says they are, for example in a folder of vendored crates.
fn sources_by_metadata() -> Result<PathBuf, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").ok_or("Cargo does not say where it is")?;
    let target = env::var("TARGET")?;
    let arguments = ["metadata", "--format-version=1", "--offline", "--filter-platform", &target];
    let output = Command::new(cargo).args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().into());
    }
    let metadata = String::from_utf8(output.stdout)?;
    // The description of a package begins with its name and version; a dependency on it has no version there.
    let package = metadata.split_once(r#"{"name":"k8s-openapi","version":"#).ok_or("no k8s-openapi")?.1;
    let manifest = package.split_once(r#""manifest_path":"#).ok_or("k8s-openapi has no manifest")?.1;
    let manifest = literal(manifest).ok_or("the path of k8s-openapi cannot be read")?;
    Ok(Path::new(&manifest).with_file_name("src").join(VERSION))
}

fn collect(
    folder: &Path,
    texts: &mut Texts,
    types: &mut BTreeMap<String, Described>,
) -> Result<(), Box<dyn Error>> {
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
            let mut inner = entries.collect::<Result<Vec<_>, std::io::Error>>()?;
            // The order of a folder's files is that of the file system; the result must not depend on it.
            inner.sort();
            open.extend(inner);
        } else if let Some((name, described)) = read(&fs::read_to_string(path)?, texts) {
            types.insert(name, described);
        }
    }
    match types.is_empty() {
        true => Err("the sources of k8s-openapi have no schemas".into()),
        false => Ok(()),
    }
}

/// Reads the JSON schema in a source file: the name of the type, and its texts.
fn read(source: &str, texts: &mut Texts) -> Option<(String, Described)> {
    let schema = source.split_once("fn schema_name()")?.1;
    let name = literal(schema.split_once(" {")?.1)?;
    let mut described = Described::default();
    let mut field = None;
    for line in schema.lines() {
        if let Some(text) = line.strip_prefix(OWN) {
            described.own = described.own.or_else(|| Some(texts.place(literal(text)?)));
        } else if line.starts_with(FIELD) {
            field = literal(line);
        } else if let Some((_, text)) = line.split_once("\"description\"")
            && let Some(field) = field.take()
            && let Some(text) = literal(text)
        {
            described.fields.insert(field, texts.place(text));
        }
    }
    Some((name, described))
}

/// The first string literal of a piece of Rust or JSON, which escape alike.
fn literal(source: &str) -> Option<String> {
    let mut text = String::new();
    let mut letters = source[source.find('"')? + 1..].chars();
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                // Only quotes, backslashes and slashes are left in the sources.
                other => other,
            }),
            letter => text.push(letter),
        }
    }
}

fn print(texts: &Texts, types: &BTreeMap<String, Described>) -> String {
    let all: Vec<String> = texts.all.iter().map(|text| quote(text)).collect();
    let types: Vec<String> = types
        .iter()
        .map(|(name, described)| {
            let own = described.own.map_or("null".to_owned(), |place| place.to_string());
            let fields = described.fields.iter().map(|(field, place)| format!("{}:{place}", quote(field)));
            let fields = fields.collect::<Vec<_>>().join(",");
            format!(r#"{}:{{"own":{own},"fields":{{{fields}}}}}"#, quote(name))
        })
        .collect();
    format!(r#"{{"texts":[{}],"types":{{{}}}}}"#, all.join(","), types.join(","))
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if u32::from(letter) < 0x20 => {
                write!(out, "\\u{:04x}", u32::from(letter)).expect("a String can be written to");
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
