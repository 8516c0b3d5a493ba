//! The files of a descriptor set, as a schema registry knows them: each is one schema, which names those it imports.

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// Field 1 of a `FileDescriptorSet`, of which each file is one.
const FILE: u8 = 0x0a;

/// The messages of a file, by their indexes.
#[derive(Debug)]
pub struct MessageNames(Vec<(Vec<u32>, String)>);

impl MessageNames {
    /// Reads the names of a serialized `FileDescriptorProto`.
    pub fn of_file(file: &[u8]) -> Result<MessageNames, String> {
        let file = FileDescriptorProto::decode(file).map_err(|err| format!("not a file descriptor: {err}"))?;
        Ok(MessageNames::of(&file))
    }

    fn of(file: &FileDescriptorProto) -> MessageNames {
        let mut names = Vec::new();
        add(&mut names, &file.message_type, file.package.as_deref().unwrap_or_default(), &[]);
        MessageNames(names)
    }

    /// Returns the full name of a message.
    pub fn name(&self, indexes: &[u32]) -> Option<&str> {
        self.0.iter().find(|(there, _)| there == indexes).map(|(_, name)| name.as_str())
    }

    fn indexes(&self, name: &str) -> Option<&[u32]> {
        self.0.iter().find(|(_, there)| there == name).map(|(indexes, _)| indexes.as_slice())
    }
}

fn add(names: &mut Vec<(Vec<u32>, String)>, messages: &[DescriptorProto], scope: &str, outer: &[u32]) {
    for (index, message) in (0..).zip(messages) {
        let indexes = [outer, &[index]].concat();
        let name = if scope.is_empty() { message.name().to_owned() } else { format!("{scope}.{}", message.name()) };
        add(names, &message.nested_type, &name, &indexes);
        names.push((indexes, name));
    }
}

/// A file of a descriptor set.
#[derive(Debug)]
pub struct SchemaFile {
    pub name: String,
    /// The serialized `FileDescriptorProto`.
    pub bytes: Vec<u8>,
    /// Names of imported files, without those that each Protobuf library has.
    pub imports: Vec<String>,
}

/// Returns the file of a message and those it imports, each after its imports; and the indexes of the message.
pub fn files_of(set: &[u8], message: &str) -> Result<(Vec<SchemaFile>, Vec<u32>), String> {
    let set = FileDescriptorSet::decode(set).map_err(|err| format!("not a descriptor set: {err}"))?;
    let message = message.trim_start_matches('.');
    let found = set.file.iter().find_map(|file| Some((file, MessageNames::of(file).indexes(message)?.to_vec())));
    let (main, indexes) = found.ok_or_else(|| format!("the descriptor set has no message {message:?}"))?;
    let mut files = Vec::new();
    collect(&set, main, &mut files, &mut vec![])?;
    Ok((files, indexes))
}

fn collect<'a>(
    set: &'a FileDescriptorSet,
    file: &'a FileDescriptorProto,
    files: &mut Vec<SchemaFile>,
    open: &mut Vec<&'a str>,
) -> Result<(), String> {
    if open.contains(&file.name()) {
        return Err(format!("file {} imports itself", file.name()));
    }
    if files.iter().any(|there| there.name == file.name()) {
        return Ok(());
    }
    open.push(file.name());
    let own = |name: &&String| !name.starts_with("google/protobuf/");
    let imports: Vec<_> = file.dependency.iter().filter(own).cloned().collect();
    for import in &imports {
        let there = set.file.iter().find(|there| there.name() == import);
        let there = there.ok_or_else(|| format!("the descriptor set lacks {import}, which {} imports", file.name()))?;
        collect(set, there, files, open)?;
    }
    open.pop();
    files.push(SchemaFile { name: file.name().to_owned(), bytes: file.encode_to_vec(), imports });
    Ok(())
}

/// Returns the descriptor set of serialized files.
pub fn set_of<'a>(files: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut set = Vec::new();
    for file in files {
        set.push(FILE);
        crate::varint::write(file.len() as u64, &mut set);
        set.extend_from_slice(file);
    }
    set
}
