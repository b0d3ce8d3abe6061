//! Tags of blobs: what they may be, and the expressions over them that `x-ms-if-tags` and `where` carry.
//!
//! ```text
//! expression := unit { ("AND" | "OR") unit }                      AND binds tighter
//! unit       := "(" expression ")" | name operator value           operator: = <> > >= < <=
//! name       := identifier | "any text" | @container               value: 'any text'
//! ```
//!
//! 1. Nothing here recurses: the parser keeps its operators on a stack of its own, and what it makes is a list in postfix order. An
//!    expression of parentheses alone costs what its length costs.
//! 2. A comparison with a tag that is not there is false, `<>` as well. Text compares by code points, case matters.
//! 3. `where` knows neither OR nor `<>` nor parentheses; `@container` stands only in the `where` of an account, with `=`.

use contract::limits::{TAG_KEY_CHARS_MAX, TAG_OPERATORS_MAX, TAG_VALUE_CHARS_MAX, TAGS_MAX};
use contract::{ErrorCode, Refusal};

/// Tags of one blob, sorted by key.
pub type Tags = Vec<(String, String)>;

/// Holds tags that a client sent against the rules, and sorts them.
pub fn check(mut tags: Tags) -> Result<Tags, Refusal> {
    if tags.len() > TAGS_MAX {
        return Err(ErrorCode::TagsTooLarge.into());
    }
    for (key, value) in &tags {
        if key.is_empty() {
            return Err(ErrorCode::EmptyTagName.into());
        }
        if key.chars().count() > TAG_KEY_CHARS_MAX || value.chars().count() > TAG_VALUE_CHARS_MAX {
            return Err(ErrorCode::TagsTooLarge.into());
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || " +-./:=_".contains(c);
        if !key.chars().all(allowed) || !value.chars().all(allowed) {
            return Err(ErrorCode::InvalidTag.into());
        }
    }
    tags.sort_unstable();
    if tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(ErrorCode::DuplicateTagNames.into());
    }
    Ok(tags)
}

/// Where an expression stands decides what it may say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `x-ms-if-tags`
    Condition,
    /// `where` of Find Blobs by Tags in the whole account.
    WhereInAccount,
    /// `where` within one container.
    WhereInContainer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Operator {
    fn holds(self, left: &str, right: &str) -> bool {
        match self {
            Operator::Equal => left == right,
            Operator::NotEqual => left != right,
            Operator::Greater => left > right,
            Operator::GreaterOrEqual => left >= right,
            Operator::Less => left < right,
            Operator::LessOrEqual => left <= right,
        }
    }
}

/// One step, in postfix order: the last two take their operands from the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Compare { key: String, operator: Operator, value: String },
    Container(String),
    And,
    Or,
}

/// An expression that was read; it never fails again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TagExpression {
    steps: Vec<Step>,
}

impl TagExpression {
    /// What is no expression is refused with the reason.
    pub fn parse(text: &str, dialect: Dialect) -> Result<TagExpression, &'static str> {
        Parser { rest: text, dialect }.run()
    }

    /// Do the tags of a blob match? Whatever is asked of the container was asked before.
    pub fn holds(&self, tags: &[(String, String)]) -> bool {
        let mut stack: Vec<bool> = Vec::with_capacity(4);
        for step in &self.steps {
            let value = match step {
                Step::Compare { key, operator, value } => {
                    tags.iter().find(|(name, _)| name == key).is_some_and(|(_, tag)| operator.holds(tag, value))
                }
                Step::Container(_) => true,
                Step::And => pop(&mut stack) & pop(&mut stack),
                Step::Or => pop(&mut stack) | pop(&mut stack),
            };
            stack.push(value);
        }
        pop(&mut stack)
    }

    /// Could blobs of this container match?
    pub fn wants_container(&self, name: &str) -> bool {
        self.containers().all(|wanted| wanted == name)
    }

    /// The one container to look in, if the expression names it.
    pub fn container(&self) -> Option<&str> {
        self.containers().next()
    }

    fn containers(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Container(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Is this tag one that the expression asks about? Answers show those alone.
    pub fn names(&self, key: &str) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Compare { key: name, .. } if name == key))
    }
}

fn pop(stack: &mut Vec<bool>) -> bool {
    stack.pop().expect("the parser leaves every operator its operands")
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Open,
    Close,
    And,
    Or,
    Operator(Operator),
    Name(String),
    /// `@word`
    System(String),
    Value(String),
    End,
}

/// Operators that wait for their right side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    Open,
    Or,
    And,
}

struct Parser<'a> {
    rest: &'a str,
    dialect: Dialect,
}

impl Parser<'_> {
    fn run(mut self) -> Result<TagExpression, &'static str> {
        let mut steps = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut operators = 0;
        loop {
            match self.next()? {
                Token::Open => {
                    waiting.push(Waiting::Open);
                    continue;
                }
                token => steps.push(self.comparison(token)?),
            }
            loop {
                let operator = match self.next()? {
                    Token::Close => {
                        settle(&mut waiting, &mut steps, Waiting::Or);
                        if waiting.pop() != Some(Waiting::Open) {
                            return Err("A parenthesis is closed that was not opened.");
                        }
                        continue;
                    }
                    Token::End => {
                        settle(&mut waiting, &mut steps, Waiting::Or);
                        return match waiting.is_empty() {
                            true => Ok(TagExpression { steps }),
                            false => Err("A parenthesis is not closed."),
                        };
                    }
                    Token::And => Waiting::And,
                    Token::Or => Waiting::Or,
                    _ => return Err("AND, OR or the end is expected after a comparison."),
                };
                operators += 1;
                if operators > TAG_OPERATORS_MAX {
                    return Err("There are more than 10 logical operators.");
                }
                settle(&mut waiting, &mut steps, operator);
                waiting.push(operator);
                break;
            }
        }
    }

    /// The rest of a comparison that begins with this token.
    fn comparison(&mut self, first: Token) -> Result<Step, &'static str> {
        if !matches!(first, Token::Name(_) | Token::System(_)) {
            return Err("The name of a tag is expected.");
        }
        let Token::Operator(operator) = self.next()? else { return Err("An operator is expected after a name.") };
        let Token::Value(value) = self.next()? else { return Err("A value in single quotes is expected.") };
        match first {
            Token::Name(key) => Ok(Step::Compare { key, operator, value }),
            _ if operator == Operator::Equal => Ok(Step::Container(value)),
            _ => Err("@container can only be compared with =."),
        }
    }

    fn next(&mut self) -> Result<Token, &'static str> {
        let is_condition = self.dialect == Dialect::Condition;
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = text.chars().next() else {
            self.rest = text;
            return Ok(Token::End);
        };
        let (token, length) = match first {
            '(' | ')' if !is_condition => return Err("Parentheses are not supported here."),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '=' => (Token::Operator(Operator::Equal), 1),
            '<' if text.starts_with("<>") && !is_condition => return Err("<> is not supported here."),
            '<' if text.starts_with("<>") => (Token::Operator(Operator::NotEqual), 2),
            '<' if text.starts_with("<=") => (Token::Operator(Operator::LessOrEqual), 2),
            '<' => (Token::Operator(Operator::Less), 1),
            '>' if text.starts_with(">=") => (Token::Operator(Operator::GreaterOrEqual), 2),
            '>' => (Token::Operator(Operator::Greater), 1),
            '\'' => {
                let (value, length) = quoted(text, '\'').ok_or("A value is not closed by its quote.")?;
                (Token::Value(value), length)
            }
            '"' => {
                let (name, length) = quoted(text, '"').ok_or("A name is not closed by its quote.")?;
                if name.is_empty() {
                    return Err("The name of a tag is empty.");
                }
                (Token::Name(name), length)
            }
            '@' => {
                let word = word(&text[1..]);
                if !word.eq_ignore_ascii_case("container") || self.dialect != Dialect::WhereInAccount {
                    return Err("Only @container is known, and only where a whole account is searched.");
                }
                (Token::System(word.to_string()), 1 + word.len())
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let word = word(text);
                let token = match word {
                    word if word.eq_ignore_ascii_case("and") => Token::And,
                    word if word.eq_ignore_ascii_case("or") && is_condition => Token::Or,
                    word if word.eq_ignore_ascii_case("or") => return Err("OR is not supported here."),
                    word => Token::Name(word.to_string()),
                };
                (token, word.len())
            }
            _ => return Err("There is a character that has no meaning here."),
        };
        self.rest = &text[length..];
        Ok(token)
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// What stands between quotes at the beginning, doubled ones made single, and how long it is with them.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let inner = &text[1..];
    let (mut content, mut from) = (String::new(), 0);
    loop {
        let at = from + inner[from..].find(quote)?;
        content.push_str(&inner[from..at]);
        if !inner[at + 1..].starts_with(quote) {
            return Some((content, at + 2));
        }
        content.push(quote);
        from = at + 2;
    }
}

/// Moves the operators that bind at least as tightly as the next one to where their operands are complete.
fn settle(waiting: &mut Vec<Waiting>, steps: &mut Vec<Step>, next: Waiting) {
    loop {
        let step = match (waiting.last(), next) {
            (Some(Waiting::And), _) => Step::And,
            (Some(Waiting::Or), Waiting::Or) => Step::Or,
            _ => return,
        };
        waiting.pop();
        steps.push(step);
    }
}

#[cfg(test)]
mod tests;
