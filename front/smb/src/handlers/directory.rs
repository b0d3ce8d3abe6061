//! QUERY_DIRECTORY: the names in a directory that match a pattern (MS-SMB2 3.3.5.18, MS-FSA 2.1.4.4).

use std::collections::VecDeque;

use contract::names::fold;
use partition::file::handle::look;
use partition::file::handle::open::right;

use super::info::facts;
use crate::chain::{Reply, Request};
use crate::connection::{TRANSFER_BYTES_MAX, lock};
use crate::open::Open;
use crate::server::Server;
use crate::status::Status;
use crate::wire::info::{Entries, Entry, is_directory_class};
use crate::wire::io::output_response;
use crate::wire::query::{DirectoryRequest, search};

/// Names asked for at once.
const NAMES_AT_ONCE: usize = 256;

/// Where a client is in a directory.
pub struct Search {
    /// In upper case.
    pattern: Vec<char>,
    /// Found and not yet told.
    found: VecDeque<Entry>,
    /// The name to go on from; `None` at the end.
    next: Option<String>,
    told_any: bool,
}

impl Search {
    fn new(pattern: &str) -> Search {
        Search {
            pattern: fold(pattern).chars().collect(),
            found: VecDeque::new(),
            next: Some(String::new()),
            told_any: false,
        }
    }

    /// The next that matches.
    async fn next(&mut self, server: &Server, open: &Open) -> Result<Option<Entry>, Status> {
        while self.found.is_empty() {
            let Some(start) = self.next.take() else { return Ok(None) };
            let share = &open.share.found;
            let is_start = start.is_empty();
            if is_start {
                self.add_dots(server, open).await?;
            }
            let names = look::names(&server.shell, share, open.file, start, NAMES_AT_ONCE).await?;
            let matching = names.entries.into_iter().filter(|(name, _)| matches(&self.pattern, name));
            self.found.extend(matching.map(|(name, node)| Entry { facts: facts(&node), id: node.id.0, name }));
            self.next = names.next;
        }
        Ok(self.found.pop_front())
    }

    /// The directory itself, and the one it is in.
    async fn add_dots(&mut self, server: &Server, open: &Open) -> Result<(), Status> {
        let share = &open.share.found;
        let own = look::node(&server.shell, share, open.file).await?;
        let parent = match open.handle {
            Some(_) => open.handle(server)?.opening.parent(),
            None => open.file,
        };
        let parent = look::node(&server.shell, share, parent).await?;
        for (name, node) in [(".", own), ("..", parent)] {
            if matches(&self.pattern, name) {
                self.found.push_back(Entry { facts: facts(&node), id: node.id.0, name: name.to_owned() });
            }
        }
        Ok(())
    }
}

pub async fn query(request: &Request) -> Result<Reply, Status> {
    let asked = DirectoryRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    if !open.is_directory {
        return Err(Status::INVALID_PARAMETER);
    }
    open.needs(right::READ_DATA)?;
    open.still_open(server)?;
    if asked.output_max > TRANSFER_BYTES_MAX {
        return Err(Status::INVALID_PARAMETER);
    }
    if !is_directory_class(asked.class) {
        return Err(Status::INVALID_INFO_CLASS);
    }
    // Only one request at a time moves on: who finds it taken begins where it was.
    let old = lock(&open.state).search.take();
    let begins_anew = asked.flags & (search::RESTART | search::REOPEN) != 0;
    let mut search = match old {
        Some(search) if !begins_anew => search,
        old => {
            if asked.pattern.is_empty() && old.is_none() {
                return Err(Status::OBJECT_NAME_INVALID);
            }
            match (old, asked.pattern.as_str()) {
                (Some(old), "") => Search { found: VecDeque::new(), next: Some(String::new()), ..old },
                (_, pattern) => Search::new(pattern),
            }
        }
    };
    let told = tell(server, open, &mut search, &asked).await;
    lock(&open.state).search = Some(search);
    told.map(|entries| Reply::of(output_response(&entries)))
}

async fn tell(server: &Server, open: &Open, search: &mut Search, asked: &DirectoryRequest) -> Result<Vec<u8>, Status> {
    let mut entries = Entries::new(asked.class, asked.output_max as usize);
    while let Some(entry) = search.next(server, open).await? {
        if !entries.push(&entry) {
            search.found.push_front(entry);
            if entries.is_empty() {
                return Err(Status::INFO_LENGTH_MISMATCH);
            }
            break;
        }
        search.told_any = true;
        if asked.flags & search::SINGLE != 0 {
            break;
        }
    }
    match (entries.is_empty(), search.told_any) {
        (false, _) => Ok(entries.into_bytes()),
        (true, false) => Err(Status::NO_SUCH_FILE),
        (true, true) => Err(Status::NO_MORE_FILES),
    }
}

/// Does a name match a pattern in upper case? `*` is any letters, `?` any one; `<`, `>` and `"` are what old programs make
/// of `*`, `?` and `.`: letters up to the last dot, one letter or none before a dot, a dot or the end.
pub fn matches(pattern: &[char], name: &str) -> bool {
    let name: Vec<char> = fold(name).chars().collect();
    let last_dot = name.iter().rposition(|letter| *letter == '.');
    // Which ends of the pattern's beginnings the name's beginning can match.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    skip(pattern, &mut reached, 0, &name, last_dot);
    for (at, letter) in name.iter().enumerate() {
        let mut next = vec![false; pattern.len() + 1];
        for (place, wanted) in pattern.iter().enumerate().filter(|(place, _)| reached[*place]) {
            match wanted {
                '*' => next[place] = true,
                // As far as the last dot, which is not swallowed by the last of it.
                '<' => {
                    next[place] = true;
                }
                '?' => next[place + 1] = true,
                '>' => {
                    if *letter != '.' {
                        next[place + 1] = true;
                    }
                }
                '"' => {
                    if *letter == '.' {
                        next[place + 1] = true;
                    }
                }
                exact => {
                    if exact == letter {
                        next[place + 1] = true;
                    }
                }
            }
        }
        skip(pattern, &mut next, at + 1, &name, last_dot);
        reached = next;
    }
    reached[pattern.len()]
}

/// What matches without a letter.
fn skip(pattern: &[char], reached: &mut [bool], at: usize, name: &[char], last_dot: Option<usize>) {
    for place in 0..pattern.len() {
        if !reached[place] {
            continue;
        }
        let is_at_end = at == name.len();
        let matches_nothing = match pattern[place] {
            '*' => true,
            // Only before the last dot, or where no dot is left.
            '<' => last_dot.is_none_or(|dot| at >= dot) || is_at_end,
            '>' => is_at_end || name.get(at) == Some(&'.'),
            '"' => is_at_end,
            _ => false,
        };
        if matches_nothing {
            reached[place + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_whatever_their_case() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("*", ".", true),
            ("*.txt", "a.TXT", true),
            ("*.txt", "a.txt.bak", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("A*C", "abbbc", true),
            ("A*C", "abbbd", false),
            ("<.txt", "a.b.txt", true),
            ("<.b", "a.b.txt", false),
            ("a>>>", "ab", true),
            ("a>>>", "abcde", false),
            (">>>.x", "ab.x", true),
            ("a\"b", "a.b", true),
            ("a\"", "a", true),
            ("a\"", "ab", false),
            ("<", "a.b", true),
            ("", "a", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
        ] {
            let folded: Vec<char> = fold(pattern).chars().collect();
            assert_eq!(matches(&folded, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_their_number() {
        let pattern: Vec<char> = "*A".repeat(100).chars().collect();
        assert!(!matches(&pattern, &"a".repeat(99)));
        assert!(matches(&pattern, &"a".repeat(250)));
    }
}
