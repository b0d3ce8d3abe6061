//! One share, the reference of it, and what is done to both.

use std::collections::BTreeMap;

use contract::Service;
use testing::sim::chance::Chance;
use testing::{Answer, Request, World};

use crate::model::{File, Kind, Outcome, Tree};

/// Few names, so that they meet; some differ in case alone.
const NAMES: [&str; 6] = ["a", "A", "b", "dir", "Dir", "\u{e4}.txt"];
const FILE_BYTES_MAX: u64 = 3000;
const LEASE_ID: &str = "01234567-89ab-cdef-0123-456789abcdef";

pub struct Play {
    world: World,
    tree: Tree,
    /// By id, with how many there had been before.
    snapshots: BTreeMap<String, (u64, Tree)>,
    taken: u64,
    next_id: u64,
    seed: u64,
    done: Vec<String>,
}

impl Play {
    pub async fn new(world: World, seed: u64) -> Play {
        let answer = world.send(&Request::new("PUT share?restype=share").of(Service::File)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let (tree, snapshots, done) = (Tree::default(), BTreeMap::new(), Vec::new());
        Play { world, tree, snapshots, taken: 0, next_id: 1, seed, done }
    }

    async fn send(&mut self, request: Request) -> Answer {
        self.world.clock.advance_seconds(1);
        self.done.push(format!("{} {} {:?}", request.method, request.path, request.headers));
        self.world.send(&request).await
    }

    fn request(method: &str, path: &str, query: &str) -> Request {
        let encoded: String = path.bytes().map(encode).collect();
        Request::new(&format!("{method} share/{encoded}?{query}")).of(Service::File)
    }

    fn check(&self, answer: &Answer, expected: Outcome) {
        let got = if answer.status < 300 { "" } else { answer.code() };
        let told = || format!("seed {}:\n{}\n{}", self.seed, self.done.join("\n"), answer.text());
        assert_eq!(got, expected.err().unwrap_or_default(), "{}", told());
    }

    fn path(chance: &mut Chance) -> String {
        let depth = 1 + chance.weighted(&[5, 4, 1]);
        (0..depth).map(|_| *chance.pick(&NAMES)).collect::<Vec<_>>().join("/")
    }

    pub async fn step(&mut self, chance: &mut Chance) {
        let path = Self::path(chance);
        match chance.weighted(&[8, 3, 12, 14, 5, 5, 4, 4, 8, 3, 2, 3, 2, 8]) {
            0 => {
                let answer = self.send(Self::request("PUT", &path, "restype=directory")).await;
                let expected = self.tree.create_directory(&path);
                self.check(&answer, expected);
            }
            1 => {
                let answer = self.send(Self::request("DELETE", &path, "restype=directory")).await;
                let expected = self.tree.delete_directory(&path);
                self.check(&answer, expected);
            }
            2 => {
                let bytes = chance.below(FILE_BYTES_MAX);
                let request = Self::request("PUT", &path, "").header("x-ms-type", "file");
                let answer = self.send(request.header("x-ms-content-length", bytes.to_string())).await;
                self.next_id += 1;
                let expected = self.tree.create_file(&path, bytes as usize, self.next_id);
                self.check(&answer, expected);
            }
            3 => {
                let (first, letter) = (chance.below(FILE_BYTES_MAX), b'a' + chance.below(26) as u8);
                let content = vec![letter; chance.between(1, 900) as usize];
                let range = format!("bytes={first}-{}", first + content.len() as u64 - 1);
                let request = Self::request("PUT", &path, "comp=range").header("x-ms-write", "update");
                let answer = self.send(request.header("x-ms-range", range).body(content.clone())).await;
                let expected = self.tree.write(&path, first as usize, &content, self.taken);
                self.check(&answer, expected);
            }
            4 => {
                let first = chance.below(FILE_BYTES_MAX);
                let end = first + chance.between(1, 2000);
                let range = format!("bytes={first}-{}", end - 1);
                let request = Self::request("PUT", &path, "comp=range").header("x-ms-write", "clear");
                let answer = self.send(request.header("x-ms-range", range)).await;
                let expected = self.tree.clear(&path, first as usize, end as usize, self.taken);
                self.check(&answer, expected);
            }
            5 => {
                let bytes = chance.below(FILE_BYTES_MAX);
                let request = Self::request("PUT", &path, "comp=properties");
                let answer = self.send(request.header("x-ms-content-length", bytes.to_string())).await;
                let expected = self.tree.resize(&path, bytes as usize);
                self.check(&answer, expected);
            }
            6 => {
                let value = chance.below(1000).to_string();
                let request = Self::request("PUT", &path, "comp=metadata").header("x-ms-meta-value", value.clone());
                let answer = self.send(request).await;
                let expected = self.tree.set_metadata(&path, &value);
                self.check(&answer, expected);
            }
            7 => {
                let answer = self.send(Self::request("DELETE", &path, "")).await;
                let expected = self.tree.delete_file(&path);
                self.check(&answer, expected);
            }
            8 => {
                let (to, is_directory, replaces) = (Self::path(chance), chance.permille(500), chance.permille(500));
                let query = if is_directory { "restype=directory&comp=rename" } else { "comp=rename" };
                let encoded: String = path.bytes().map(encode).collect();
                let source = format!("http://127.0.0.1:10003/devstoreaccount1/share/{encoded}");
                let request = Self::request("PUT", &to, query).header("x-ms-file-rename-source", source);
                let request = request.header("x-ms-file-rename-replace-if-exists", replaces.to_string());
                let answer = self.send(request).await;
                let expected = self.tree.rename(&path, &to, is_directory, replaces);
                self.check(&answer, expected);
            }
            9 => {
                let read_only = chance.permille(400);
                let attributes = if read_only { "ReadOnly" } else { "None" };
                let request = Self::request("PUT", &path, "comp=properties").header("x-ms-file-attributes", attributes);
                let answer = self.send(request).await;
                let expected = self.tree.set_read_only(&path, read_only);
                self.check(&answer, expected);
            }
            10 => {
                let takes = chance.permille(400);
                let request = Self::request("PUT", &path, "comp=lease");
                let request = match takes {
                    true => request
                        .header("x-ms-lease-action", "acquire")
                        .header("x-ms-lease-duration", "-1")
                        .header("x-ms-proposed-lease-id", LEASE_ID),
                    false => request.header("x-ms-lease-action", "release").header("x-ms-lease-id", LEASE_ID),
                };
                let answer = self.send(request).await;
                let expected = self.tree.lease(&path, takes);
                self.check(&answer, expected);
            }
            11 => {
                let request = Request::new("PUT share?restype=share&comp=snapshot").of(Service::File);
                let answer = self.send(request).await;
                assert_eq!(answer.status, 201, "{}", answer.text());
                let id = answer.header("x-ms-snapshot").expect("an id").to_string();
                assert!(self.snapshots.insert(id, (self.taken, self.tree.clone())).is_none(), "no id twice");
                self.taken += 1;
            }
            13 => {
                let to = Self::path(chance);
                let ids: Vec<String> = self.snapshots.keys().cloned().collect();
                let id = (!ids.is_empty() && chance.permille(300)).then(|| chance.pick(&ids).clone());
                let then = id.as_ref().and_then(|id| self.snapshots.get(id)).map(|(_, tree)| tree.clone());
                let at = id.map(|id| format!("?sharesnapshot={id}")).unwrap_or_default();
                let encoded: String = path.bytes().map(encode).collect();
                let source = format!("http://127.0.0.1:10000/devstoreaccount1/share/{encoded}{at}");
                let answer = self.send(Self::request("PUT", &to, "").header("x-ms-copy-source", source)).await;
                self.next_id += 1;
                let expected = self.tree.copy(&path, then.as_ref(), &to, self.next_id, self.taken);
                self.check(&answer, expected);
            }
            _ => {
                let ids: Vec<String> = self.snapshots.keys().cloned().collect();
                if !ids.is_empty() {
                    let id = chance.pick(&ids).clone();
                    let line = format!("DELETE share?restype=share&sharesnapshot={id}");
                    let answer = self.send(Request::new(&line).of(Service::File)).await;
                    assert_eq!(answer.status, 202, "{}", answer.text());
                    self.snapshots.remove(&id);
                }
            }
        }
    }

    /// Listings, contents, ranges, differences and the size of the whole, now and in every snapshot.
    pub async fn compare_everything(&mut self) {
        let stats = self.send(Request::new("GET share?restype=share&comp=stats").of(Service::File)).await;
        let used = format!("<ShareUsageBytes>{}<", self.tree.used_bytes());
        assert!(stats.text().contains(&used), "{used} {} seed {}", stats.text(), self.seed);
        let mut states = vec![(None, self.tree.clone())];
        states.extend(self.snapshots.iter().map(|(id, (_, tree))| (Some(id.clone()), tree.clone())));
        for (snapshot, tree) in states {
            let at = snapshot.as_ref().map(|id| format!("&sharesnapshot={id}")).unwrap_or_default();
            self.compare_directory("", &tree, &at).await;
            for (path, node) in &tree.nodes {
                match &node.kind {
                    Kind::Directory => self.compare_directory(path, &tree, &at).await,
                    Kind::File(file) => self.compare_file(path, file, &node.metadata, &at).await,
                }
            }
        }
        // Differences of what is there now to every snapshot that had the same file.
        for (path, node) in &self.tree.nodes.clone() {
            let Kind::File(file) = &node.kind else { continue };
            for (id, (generation, before)) in self.snapshots.clone() {
                let then = before.nodes.values().find_map(|node| match &node.kind {
                    Kind::File(then) if then.id == file.id => Some(then.clone()),
                    _ => None,
                });
                let nothing = File { bytes: Vec::new(), written: Vec::new(), body: 0, ..file.clone() };
                let expected = file.ranges(Some((then.as_ref().unwrap_or(&nothing), generation)));
                let query = format!("comp=rangelist&prevsharesnapshot={id}");
                let request = Self::request("GET", path, &query).header("x-ms-file-support-rename", "true");
                let answer = self.send(request).await;
                assert_eq!(ranges(&answer), expected, "{path} since {id}, seed {}", self.seed);
            }
        }
    }

    async fn compare_directory(&mut self, path: &str, tree: &Tree, at: &str) {
        let mut listed = Vec::new();
        let mut marker = String::new();
        loop {
            let query = format!("restype=directory&comp=list&maxresults=3{marker}{at}");
            let answer = self.send(Self::request("GET", path, &query)).await;
            assert_eq!(answer.status, 200, "{} seed {}", answer.text(), self.seed);
            let text = answer.text();
            for entry in text.split("<Name>").skip(1) {
                let name = &entry[..entry.find('<').expect("an end")];
                let size = entry.split_once("<Content-Length>").filter(|(before, _)| !before.contains("<Name>"));
                listed.push(match size {
                    Some((_, size)) => format!("{name} {}", &size[..size.find('<').expect("an end")]),
                    None => format!("{name}/"),
                });
            }
            match text.split_once("<NextMarker>") {
                Some((_, rest)) => {
                    let next = &rest[..rest.find('<').expect("an end")];
                    marker = format!("&marker={next}");
                }
                None => break,
            }
        }
        assert_eq!(listed, tree.list(path), "{path} {at} seed {}:\n{}", self.seed, self.done.join("\n"));
    }

    async fn compare_file(&mut self, path: &str, file: &File, metadata: &str, at: &str) {
        let query = at.trim_start_matches('&');
        let answer = self.send(Self::request("GET", path, query)).await;
        assert_eq!(answer.status, 200, "{} seed {}", answer.text(), self.seed);
        assert!(answer.body == file.bytes, "{path} {at} seed {}:\n{}", self.seed, self.done.join("\n"));
        assert_eq!(answer.header("x-ms-meta-value").unwrap_or_default(), metadata);
        let answer = self.send(Self::request("GET", path, &format!("comp=rangelist{at}"))).await;
        assert_eq!(ranges(&answer), file.ranges(None), "{path} {at} seed {}", self.seed);
    }
}

fn encode(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

/// `0..511`, with `-` before what was cleared.
fn ranges(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let number = |text: &str, name: &str| {
        let (_, rest) = text.split_once(name).expect("a number");
        rest[..rest.find('<').expect("an end")].to_string()
    };
    let parts = text.split("Range><Start>").skip(1).zip(text.match_indices("Range><Start>"));
    parts
        .map(|(part, (at, _))| {
            let sign = if text[..at].ends_with("Clear") { "-" } else { "" };
            let first = &part[..part.find('<').expect("an end")];
            format!("{sign}{first}..{}", number(part, "<End>"))
        })
        .collect()
}
