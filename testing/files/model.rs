//! The reference: a share as a map from paths to what is there. It is made to be read, not to be fast.

use std::collections::BTreeMap;

/// Paths in upper case, names joined by `/`; the root is the empty path.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub nodes: BTreeMap<String, Node>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// As it was written, without the directories above.
    pub name: String,
    pub kind: Kind,
    pub metadata: String,
    pub read_only: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Directory,
    File(File),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// The same for as long as the file is there, whatever its name.
    pub id: u64,
    /// Another one when all content is replaced.
    pub body: u64,
    pub bytes: Vec<u8>,
    /// For each byte how many snapshots there had been when it was written; `None` if nobody wrote it.
    pub written: Vec<Option<u64>>,
    pub is_leased: bool,
}

pub type Outcome = Result<(), &'static str>;

pub const LEASED: &str = "LeaseIdMissing";

pub fn fold(path: &str) -> String {
    path.to_uppercase()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl Tree {
    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.nodes.get(path).is_some_and(|node| node.kind == Kind::Directory)
    }

    fn must_have_parent(&self, path: &str) -> Outcome {
        if self.is_directory(parent(path)) { Ok(()) } else { Err("ParentNotFound") }
    }

    fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.nodes.keys().any(|other| other.starts_with(&below))
    }

    pub fn used_bytes(&self) -> usize {
        let size = |node: &Node| if let Kind::File(file) = &node.kind { file.bytes.len() } else { 0 };
        self.nodes.values().map(size).sum()
    }

    pub fn create_directory(&mut self, path: &str) -> Outcome {
        let folded = fold(path);
        self.must_have_parent(&folded)?;
        if self.nodes.contains_key(&folded) {
            return Err("ResourceAlreadyExists");
        }
        let node = Node { name: name(path).into(), kind: Kind::Directory, metadata: String::new(), read_only: false };
        self.nodes.insert(folded, node);
        Ok(())
    }

    pub fn delete_directory(&mut self, path: &str) -> Outcome {
        let folded = fold(path);
        self.must_have_parent(&folded)?;
        match self.nodes.get(&folded) {
            None => Err("ResourceNotFound"),
            Some(node) if node.kind != Kind::Directory => Err("ResourceTypeMismatch"),
            Some(_) if !self.is_empty(&folded) => Err("DirectoryNotEmpty"),
            Some(_) => {
                self.nodes.remove(&folded);
                Ok(())
            }
        }
    }

    pub fn create_file(&mut self, path: &str, bytes: usize, fresh: u64) -> Outcome {
        let folded = fold(path);
        self.must_have_parent(&folded)?;
        let mut made =
            Node { name: name(path).into(), kind: Kind::Directory, metadata: String::new(), read_only: false };
        let mut file =
            File { id: fresh, body: fresh, bytes: vec![0; bytes], written: vec![None; bytes], is_leased: false };
        if let Some(old) = self.nodes.get(&folded) {
            let Kind::File(old_file) = &old.kind else { return Err("ResourceTypeMismatch") };
            if old_file.is_leased {
                return Err(LEASED);
            }
            if old.read_only {
                return Err("ReadOnlyAttribute");
            }
            made.name.clone_from(&old.name);
            file.id = old_file.id;
        }
        made.kind = Kind::File(file);
        self.nodes.insert(folded, made);
        Ok(())
    }

    /// A copy of a file, as it is or as it was in another tree, with all that was written of it by now.
    pub fn copy(&mut self, from: &str, then: Option<&Tree>, to: &str, fresh: u64, generation: u64) -> Outcome {
        let (is_itself, source) = (then.is_none() && fold(from) == fold(to), then.unwrap_or(self));
        let Some(Node { kind: Kind::File(source), metadata, .. }) = source.nodes.get(&fold(from)).cloned() else {
            return Err("CannotVerifyCopySource");
        };
        self.create_file(to, 0, fresh)?;
        let node = self.nodes.get_mut(&fold(to)).expect("it is there");
        let Kind::File(file) = &mut node.kind else { return Err("ResourceTypeMismatch") };
        node.metadata = metadata;
        if is_itself {
            *file = source;
            return Ok(());
        }
        file.written = source.written.iter().map(|written| written.map(|_| generation)).collect();
        file.bytes = source.bytes;
        Ok(())
    }

    /// A file that may be written to.
    fn writable(&mut self, path: &str) -> Result<&mut File, &'static str> {
        let folded = fold(path);
        self.must_have_parent(&folded)?;
        let node = self.nodes.get_mut(&folded).ok_or("ResourceNotFound")?;
        let read_only = node.read_only;
        let Kind::File(file) = &mut node.kind else { return Err("ResourceTypeMismatch") };
        match (file.is_leased, read_only) {
            (true, _) => Err(LEASED),
            (_, true) => Err("ReadOnlyAttribute"),
            _ => Ok(file),
        }
    }

    pub fn write(&mut self, path: &str, first: usize, content: &[u8], generation: u64) -> Outcome {
        let file = self.writable(path)?;
        let end = first + content.len();
        if end > file.bytes.len() {
            return Err("InvalidRange");
        }
        file.bytes[first..end].copy_from_slice(content);
        file.written[first..end].fill(Some(generation));
        Ok(())
    }

    pub fn clear(&mut self, path: &str, first: usize, end: usize, generation: u64) -> Outcome {
        let file = self.writable(path)?;
        if end > file.bytes.len() {
            return Err("InvalidRange");
        }
        file.bytes[first..end].fill(0);
        file.written[first..end].fill(Some(generation));
        let (inner, inner_end) = (first.next_multiple_of(512), end / 512 * 512);
        if inner < inner_end {
            file.written[inner..inner_end].fill(None);
        }
        Ok(())
    }

    pub fn resize(&mut self, path: &str, bytes: usize) -> Outcome {
        let file = self.writable(path)?;
        file.bytes.resize(bytes, 0);
        file.written.resize(bytes, None);
        Ok(())
    }

    pub fn set_metadata(&mut self, path: &str, value: &str) -> Outcome {
        self.writable(path)?;
        self.nodes.get_mut(&fold(path)).expect("it is there").metadata = value.into();
        Ok(())
    }

    pub fn set_read_only(&mut self, path: &str, read_only: bool) -> Outcome {
        match self.writable(path) {
            // Attributes can be set on what is read-only.
            Ok(_) | Err("ReadOnlyAttribute") => {
                self.nodes.get_mut(&fold(path)).expect("it is there").read_only = read_only;
                Ok(())
            }
            Err(code) => Err(code),
        }
    }

    pub fn lease(&mut self, path: &str, takes: bool) -> Outcome {
        let folded = fold(path);
        self.must_have_parent(&folded)?;
        let node = self.nodes.get_mut(&folded).ok_or("ResourceNotFound")?;
        let Kind::File(file) = &mut node.kind else { return Err("ResourceTypeMismatch") };
        if !takes && !file.is_leased {
            return Err("LeaseIdMismatchWithLeaseOperation");
        }
        // There is one client, with one id: it may take its lease again.
        file.is_leased = takes;
        Ok(())
    }

    pub fn delete_file(&mut self, path: &str) -> Outcome {
        self.writable(path)?;
        self.nodes.remove(&fold(path));
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str, is_directory: bool, replaces: bool) -> Outcome {
        let (source, target) = (fold(from), fold(to));
        self.must_have_parent(&source)?;
        let node = self.nodes.get(&source).ok_or("ResourceNotFound")?;
        if (node.kind == Kind::Directory) != is_directory {
            return Err("ResourceTypeMismatch");
        }
        if matches!(&node.kind, Kind::File(file) if file.is_leased) {
            return Err(LEASED);
        }
        self.must_have_parent(&target)?;
        if target.starts_with(&format!("{source}/")) {
            return Err("InvalidInput");
        }
        if let Some(there) = self.nodes.get(&target).filter(|_| source != target) {
            if !replaces {
                return Err("ResourceAlreadyExists");
            }
            if (there.kind == Kind::Directory) != is_directory {
                return Err("ResourceTypeMismatch");
            }
            if !self.is_empty(&target) {
                return Err("DirectoryNotEmpty");
            }
            if there.read_only {
                return Err("ReadOnlyAttribute");
            }
            if matches!(&there.kind, Kind::File(file) if file.is_leased) {
                return Err(LEASED);
            }
        }
        let below = format!("{source}/");
        let moved: Vec<String> =
            self.nodes.keys().filter(|path| **path == source || path.starts_with(&below)).cloned().collect();
        let moved: Vec<_> = moved.into_iter().map(|path| (path.clone(), self.nodes.remove(&path))).collect();
        for (path, node) in moved {
            let mut node = node.expect("it was there");
            if path == source {
                node.name = name(to).into();
            }
            self.nodes.insert(format!("{target}{}", &path[source.len()..]), node);
        }
        Ok(())
    }

    /// The names in a directory in order, files with their sizes.
    pub fn list(&self, directory: &str) -> Vec<String> {
        let folded = fold(directory);
        let inside = self.nodes.iter().filter(|(path, _)| parent(path) == folded && !path.is_empty());
        let mut named: Vec<(&str, String)> = inside
            .map(|(path, node)| {
                let shown = match &node.kind {
                    Kind::Directory => format!("{}/", node.name),
                    Kind::File(file) => format!("{} {}", node.name, file.bytes.len()),
                };
                (name(path), shown)
            })
            .collect();
        named.sort();
        named.into_iter().map(|(_, shown)| shown).collect()
    }
}

impl File {
    /// Where bytes were written; or, against an earlier state, where that is different, `-` before what was cleared.
    pub fn ranges(&self, before: Option<(&File, u64)>) -> Vec<String> {
        let shown = |at: usize| {
            let here = self.written[at];
            match before {
                None => here.map(|_| ""),
                Some((before, generation)) => match here {
                    Some(written) if before.body == self.body && written <= generation => None,
                    Some(_) => Some(""),
                    None => before.written.get(at).copied().flatten().map(|_| "-"),
                },
            }
        };
        let mut ranges: Vec<(&str, usize, usize)> = Vec::new();
        for at in 0..self.bytes.len() {
            let Some(sign) = shown(at) else { continue };
            match ranges.last_mut() {
                Some(last) if last.0 == sign && last.2 + 1 == at => last.2 = at,
                _ => ranges.push((sign, at, at)),
            }
        }
        ranges.into_iter().map(|(sign, first, last)| format!("{sign}{first}..{last}")).collect()
    }
}
