//! QUERY_DIRECTORY: the names in a directory that match a pattern (MS-SMB2 3.3.5.18, MS-FSA 2.1.4.4, 2.1.5.6.3).
//!
//! Entries have no numbers, and a listing that names one (SMB2_INDEX_SPECIFIED) goes on where it was: an object store need not know any
//! (MS-FSA 2.1.5.6), its algorithm writes zero into the FileIndex of every entry and does not look at the one that is asked for (2.1.5.6.3
//! and below), and NTFS, like Samba, has it so.

use contract::limits::FILE_NAME_UNITS_MAX;
use contract::names::fold;
use contract::rights as right;
use partition::file::handle::look;
use partition::record::Node;

use super::info::facts;
use crate::chain::{Reply, Request};
use crate::connection::lock;
use crate::open::Open;
use crate::server::Server;
use crate::status::Status;
use crate::wire::info::{Entries, Entry, is_directory_class};
use crate::wire::io::output_response;
use crate::wire::query::{DirectoryRequest, search};

/// Names asked for at once, at most.
const NAMES_AT_ONCE: usize = 1024;
/// What an entry takes at least, by which it is guessed how many fit.
const ENTRY_BYTES: usize = 64;

/// Where a client is in a directory. Nothing is read ahead of what it is told: what goes meanwhile is not told.
#[derive(Clone)]
pub struct Search {
    /// In upper case.
    pattern: Vec<char>,
    next: Next,
    /// Nobody was answered yet: that nothing matches is news (MS-FSA 2.1.5.6.3, FirstQuery).
    is_first: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Next {
    /// The directory itself, and then the one it is in.
    Dot,
    DotDot,
    /// The names from this one on, in upper case.
    Name(String),
    End,
}

impl Search {
    /// An empty pattern is every name (MS-FSA 2.1.5.6).
    fn new(pattern: &str, is_first: bool) -> Result<Search, Status> {
        if !is_pattern(pattern) {
            return Err(Status::OBJECT_NAME_INVALID);
        }
        let pattern = if pattern.is_empty() { "*" } else { pattern };
        Ok(Search { pattern: fold(pattern).chars().collect(), next: Next::Dot, is_first })
    }

    /// As a request has it: where it was, or from the beginning, with the pattern it had or another. SMB2_REOPEN makes it as if the
    /// directory was only now opened; SMB2_RESTART_SCANS does not.
    fn go_on(old: Option<Search>, asked: &DirectoryRequest) -> Result<Search, Status> {
        let (restarts, reopens) = (asked.flags & search::RESTART != 0, asked.flags & search::REOPEN != 0);
        match (old, asked.pattern.as_str()) {
            (None, pattern) => Search::new(pattern, true),
            (Some(old), _) if !restarts && !reopens => Ok(old),
            (Some(old), "") => Ok(Search { next: Next::Dot, is_first: old.is_first || reopens, ..old }),
            (Some(old), pattern) => Search::new(pattern, old.is_first || reopens),
        }
    }

    /// What every name that matches begins with: only those are looked at.
    fn prefix(&self) -> String {
        self.pattern.iter().take_while(|letter| !WILD.contains(letter)).collect()
    }

    /// The next few that match, each with what comes after it. At the end there are none.
    async fn some(&self, server: &Server, open: &Open, mut count: usize) -> Result<Vec<(Entry, Next)>, Status> {
        let (shell, share) = (&server.shell, &open.share.found);
        let mut next = self.next.clone();
        let mut found = Vec::new();
        let of = |node: &Node, name: String| Entry { facts: facts(node), id: node.id.0, name };
        while found.is_empty() && next != Next::End {
            let (dots, after) = match &next {
                Next::Dot => (Some((".", open.file)), Next::DotDot),
                Next::DotDot => (Some(("..", parent(server, open)?)), Next::Name(String::new())),
                Next::Name(_) | Next::End => (None, Next::End),
            };
            if let Some((name, file)) = dots {
                if matches(&self.pattern, name) {
                    let node = look::node(shell, share, file).await?;
                    found.push((of(&node, name.to_owned()), after.clone()));
                }
                next = after;
                continue;
            }
            let Next::Name(start) = &next else { break };
            let names = look::names(shell, share, open.file, self.prefix(), start.clone(), count).await?;
            let mut keys: Vec<Next> = names.entries.iter().skip(1).map(|(name, _)| Next::Name(fold(name))).collect();
            let end = names.next.map_or(Next::End, Next::Name);
            keys.push(end.clone());
            let named = names.entries.into_iter().zip(keys);
            let matching = named.filter(|((name, _), _)| matches(&self.pattern, name));
            found.extend(matching.map(|((name, node), after)| (of(&node, name), after)));
            // What follows the last that matches needs not be looked at again.
            match found.last_mut() {
                Some((_, after)) => *after = end,
                None => next = end,
            }
            // Where few match, more are looked at in one go.
            count = (count * 2).min(NAMES_AT_ONCE);
            if !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }
}

fn parent(server: &Server, open: &Open) -> Result<partition::record::FileId, Status> {
    match open.handle {
        Some(_) => Ok(open.handle(server)?.opening.parent()),
        None => Ok(open.file),
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
    request.pays_for(asked.output_max)?;
    if !is_directory_class(asked.class) {
        return Err(Status::INVALID_INFO_CLASS);
    }
    // Each goes on where the one before it ended, so that is over first.
    if let Some(arrival) = &request.arrival {
        arrival.is_first().await;
    }
    let old = lock(&open.state).search.clone();
    let mut search = Search::go_on(old, &asked)?;
    let told = tell(server, open, &mut search, &asked).await;
    search.is_first = false;
    lock(&open.state).search = Some(search);
    told.map(|entries| Reply::of(output_response(&entries)))
}

async fn tell(server: &Server, open: &Open, search: &mut Search, asked: &DirectoryRequest) -> Result<Vec<u8>, Status> {
    let mut entries = Entries::new(asked.class, asked.output_max as usize);
    let is_single = asked.flags & search::SINGLE != 0;
    'full: loop {
        let room = (asked.output_max as usize).saturating_sub(entries.len());
        let count = if is_single { 1 } else { (room / ENTRY_BYTES).clamp(1, NAMES_AT_ONCE) };
        let some = search.some(server, open, count).await?;
        if some.is_empty() {
            search.next = Next::End;
            break;
        }
        for (entry, after) in some {
            if !entries.push(&entry) {
                if entries.is_empty() {
                    return Err(Status::INFO_LENGTH_MISMATCH);
                }
                break 'full;
            }
            search.next = after;
            if is_single {
                break 'full;
            }
        }
    }
    match (entries.is_empty(), search.is_first) {
        (false, _) => Ok(entries.into_bytes()),
        (true, true) => Err(Status::NO_SUCH_FILE),
        (true, false) => Err(Status::NO_MORE_FILES),
    }
}

/// Letters that stand for others (MS-FSA 2.1.4.3).
const WILD: [char; 5] = ['*', '?', '<', '>', '"'];

/// Could a name match it at all? It is a name with wildcards in it (MS-FSCC 2.1.5.2), or nothing.
fn is_pattern(pattern: &str) -> bool {
    let is_letter = |letter: char| letter >= ' ' && !matches!(letter, '\\' | '/' | ':' | '|');
    pattern.chars().all(is_letter) && pattern.encode_utf16().count() <= FILE_NAME_UNITS_MAX
}

/// Does a name match a pattern in upper case? `*` is any letters, `?` any one; `<`, `>` and `"` are what old programs make
/// of `*`, `?` and `.`: letters as far as the last dot and with it, one letter or none before a dot, a dot or the end.
pub fn matches(pattern: &[char], name: &str) -> bool {
    let name: Vec<char> = fold(name).chars().collect();
    let last_dot = name.iter().rposition(|letter| *letter == '.');
    // Which ends of the pattern's beginnings the name's beginning can match.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    skip(pattern, &mut reached, 0, &name);
    for (at, letter) in name.iter().enumerate() {
        let mut next = vec![false; pattern.len() + 1];
        for (place, wanted) in pattern.iter().enumerate().filter(|(place, _)| reached[*place]) {
            match wanted {
                '*' => next[place] = true,
                // The last dot ends it.
                '<' => next[place + usize::from(Some(at) == last_dot)] = true,
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
        skip(pattern, &mut next, at + 1, &name);
        reached = next;
    }
    reached[pattern.len()]
}

/// What matches without a letter.
fn skip(pattern: &[char], reached: &mut [bool], at: usize, name: &[char]) {
    for place in 0..pattern.len() {
        if !reached[place] {
            continue;
        }
        let is_at_end = at == name.len();
        let matches_nothing = match pattern[place] {
            '*' | '<' => true,
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
            // What `*.` becomes: names without a dot.
            ("<", "a.b", false),
            ("<", "ab", true),
            ("a<", "a.b", false),
            ("a<", "abc", true),
            ("<b.txt", "ab.txt", true),
            ("<d.txt", "c.d.txt", true),
            ("c<t", "c.d.txt", false),
            ("<txt", "c.d.txt", true),
            ("a.<", "a.bcd", true),
            // What `a*.*` becomes.
            ("a<\"*", "abc", true),
            ("a<\"*", "abc.d.e", true),
            ("*\"", "a.b", true),
            (">", ".", false),
            (">>>>>>", "a.txt", false),
            ("", "a", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
        ] {
            let folded: Vec<char> = fold(pattern).chars().collect();
            assert_eq!(matches(&folded, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_is_a_name_with_wildcards() {
        let longest = "x".repeat(255);
        for (pattern, expected) in [
            ("", true),
            ("*", true),
            ("<.>\"?", true),
            (".", true),
            ("..", true),
            ("a\\b", false),
            ("a/b", false),
            ("a:b", false),
            ("a|b", false),
            ("a\0b", false),
            (longest.as_str(), true),
            (&format!("{longest}x"), false),
        ] {
            assert_eq!(Search::new(pattern, true).is_ok(), expected, "{pattern}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_their_number() {
        let pattern: Vec<char> = "*A".repeat(100).chars().collect();
        assert!(!matches(&pattern, &"a".repeat(99)));
        assert!(matches(&pattern, &"a".repeat(250)));
    }
}
