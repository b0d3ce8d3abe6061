//! `$filter`: text to a program, and the program against an entity.
//!
//! ```text
//! or-expr    := and-expr { "or" and-expr }
//! and-expr   := unary { "and" unary }
//! unary      := { "not" } primary
//! primary    := "(" or-expr ")" | comparison | property | "true" | "false"
//! comparison := property op literal | literal op property          op: eq ne gt ge lt le
//! ```
//!
//! 1. Nothing here recurses: the parser keeps its operators on a stack of its own, the program is a list in postfix order, and so are
//!    the evaluator and the planner (`plan.rs`). A filter of parentheses alone costs what its length costs.
//! 2. A comparison with a property that is not there, or is of another type, is false, `ne` as well.
//! 3. What is no filter is refused with the place; what is one and is not supported by the service (functions, arithmetic, two
//!    properties) is 501.

use std::cmp::Ordering;

use contract::{ErrorCode, Refusal};

use super::value::{Value, ValueRef, parse_date_time, parse_double, parse_guid};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    fn parse(word: &str) -> Option<Comparison> {
        Some(match word {
            "eq" => Comparison::Equal,
            "ne" => Comparison::NotEqual,
            "gt" => Comparison::Greater,
            "ge" => Comparison::GreaterOrEqual,
            "lt" => Comparison::Less,
            "le" => Comparison::LessOrEqual,
            _ => return None,
        })
    }

    /// The same comparison with its sides exchanged.
    fn flipped(self) -> Comparison {
        match self {
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            same => same,
        }
    }

    pub fn holds(self, property: &ValueRef<'_>, literal: &ValueRef<'_>) -> bool {
        // Quirk: an Int32 finds Int64 and Double as well, and no other types meet (AzureStorageExplorer issues 5346 and 6866).
        // `filter/tests.rs::an_int32_finds_wider_numbers`
        let order = match (property, literal) {
            (ValueRef::Int64(_), ValueRef::Int32(n)) => property.compare(&ValueRef::Int64(i64::from(*n))),
            (ValueRef::Double(_), ValueRef::Int32(n)) => property.compare(&ValueRef::Double(f64::from(*n))),
            _ if property.edm_type() != literal.edm_type() => return false,
            _ => property.compare(literal),
        };
        match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            // The only pair without an order left is one with a NaN, which equals nothing.
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        }
    }
}

/// One step of a filter, in postfix order: the last three take their operands from the stack.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Compare {
        property: String,
        comparison: Comparison,
        literal: Value,
    },
    /// A property alone: is it there, and true?
    Holds {
        property: String,
    },
    Constant(bool),
    Not,
    And,
    Or,
}

/// A filter that was read; it never fails again.
#[derive(Clone, PartialEq, Debug)]
pub struct Filter {
    steps: Vec<Step>,
}

impl Filter {
    pub fn parse(text: &str) -> Result<Filter, Refusal> {
        Parser::new(text).run()
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Does an entity with these properties match? PartitionKey, RowKey and Timestamp are asked for like all others.
    pub fn matches<'a>(&self, property: impl Fn(&str) -> Option<ValueRef<'a>>) -> bool {
        let mut stack: Vec<bool> = Vec::with_capacity(8);
        for step in &self.steps {
            let value = match step {
                Step::Compare { property: name, comparison, literal } => {
                    property(name).is_some_and(|value| comparison.holds(&value, &literal.as_ref()))
                }
                Step::Holds { property: name } => property(name) == Some(ValueRef::Boolean(true)),
                Step::Constant(value) => *value,
                Step::Not => !pop(&mut stack),
                Step::And => pop(&mut stack) & pop(&mut stack),
                Step::Or => pop(&mut stack) | pop(&mut stack),
            };
            stack.push(value);
        }
        pop(&mut stack)
    }
}

fn pop(stack: &mut Vec<bool>) -> bool {
    stack.pop().expect("the parser leaves every operator its operands")
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Open,
    Close,
    Word(String),
    Literal(Value),
    End,
}

/// Operators that wait for their right side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    Open,
    Or,
    And,
    Not,
}

enum Operand {
    Property(String),
    Literal(Value),
}

struct Parser<'a> {
    text: &'a str,
    /// Where the next token begins, in bytes.
    at: usize,
    /// The token to be looked at, and where it ends.
    token: Token,
    token_end: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Parser { text, at: 0, token: Token::End, token_end: 0 }
    }

    fn run(mut self) -> Result<Filter, Refusal> {
        self.advance()?;
        let mut steps = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        loop {
            // An operand, and what may stand before it.
            match &self.token {
                Token::Open => {
                    waiting.push(Waiting::Open);
                    self.advance()?;
                    continue;
                }
                Token::Word(word) if word == "not" => {
                    waiting.push(Waiting::Not);
                    self.advance()?;
                    continue;
                }
                _ => steps.push(self.comparison()?),
            }
            // Operators, and what may stand behind the operand.
            loop {
                let operator = match &self.token {
                    Token::Close => {
                        settle(&mut waiting, &mut steps, Waiting::Or);
                        if waiting.pop() != Some(Waiting::Open) {
                            return Err(self.unexpected());
                        }
                        self.advance()?;
                        continue;
                    }
                    Token::End => {
                        settle(&mut waiting, &mut steps, Waiting::Or);
                        return if waiting.is_empty() { Ok(Filter { steps }) } else { Err(self.unexpected()) };
                    }
                    Token::Word(word) if word == "and" => Waiting::And,
                    Token::Word(word) if word == "or" => Waiting::Or,
                    Token::Word(word) if is_arithmetic(word) => return Err(unsupported("arithmetic")),
                    _ => return Err(self.unexpected()),
                };
                settle(&mut waiting, &mut steps, operator);
                waiting.push(operator);
                self.advance()?;
                break;
            }
        }
    }

    /// A comparison, or a truth on its own.
    fn comparison(&mut self) -> Result<Step, Refusal> {
        let left = self.operand()?;
        let comparison = match &self.token {
            Token::Word(word) if is_arithmetic(word) => return Err(unsupported("arithmetic")),
            Token::Word(word) => Comparison::parse(word),
            _ => None,
        };
        let Some(comparison) = comparison else {
            return match left {
                Operand::Property(property) => Ok(Step::Holds { property }),
                Operand::Literal(Value::Boolean(value)) => Ok(Step::Constant(value)),
                Operand::Literal(_) => Err(self.unexpected()),
            };
        };
        self.advance()?;
        let right = self.operand()?;
        match (left, right) {
            (Operand::Property(property), Operand::Literal(literal)) => {
                Ok(Step::Compare { property, comparison, literal })
            }
            (Operand::Literal(literal), Operand::Property(property)) => {
                Ok(Step::Compare { property, comparison: comparison.flipped(), literal })
            }
            (Operand::Property(_), Operand::Property(_)) => Err(unsupported("comparing two properties")),
            (Operand::Literal(_), Operand::Literal(_)) => Err(unsupported("comparing two constants")),
        }
    }

    fn operand(&mut self) -> Result<Operand, Refusal> {
        let operand = match &self.token {
            Token::Literal(value) => Operand::Literal(value.clone()),
            Token::Word(word) => match word.as_str() {
                "true" => Operand::Literal(Value::Boolean(true)),
                "false" => Operand::Literal(Value::Boolean(false)),
                "NaN" => Operand::Literal(Value::Double(f64::NAN)),
                "INF" => Operand::Literal(Value::Double(f64::INFINITY)),
                "null" => return Err(self.wrong("The null constant cannot be compared with")),
                "and" | "or" | "not" => return Err(self.unexpected()),
                word if Comparison::parse(word).is_some() => return Err(self.unexpected()),
                word => Operand::Property(word.to_string()),
            },
            Token::Open | Token::Close | Token::End => return Err(self.unexpected()),
        };
        self.advance()?;
        if matches!((&operand, &self.token), (Operand::Property(_), Token::Open)) {
            return Err(unsupported("functions"));
        }
        Ok(operand)
    }

    fn advance(&mut self) -> Result<(), Refusal> {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += blank;
        let rest = &rest[blank..];
        let Some(first) = rest.chars().next() else {
            (self.token, self.token_end) = (Token::End, self.at);
            return Ok(());
        };
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '\'' => {
                let (text, length) = self.quoted(0)?;
                (Token::Literal(Value::String(text)), length)
            }
            '-' | '+' | '0'..='9' | '.' => self.number(rest)?,
            c if c.is_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let word = &rest[..length];
                if rest[length..].starts_with('\'') {
                    self.prefixed(word)?
                } else {
                    (Token::Word(word.to_string()), length)
                }
            }
            c => {
                self.token_end = self.at + c.len_utf8();
                return Err(self.unexpected());
            }
        };
        self.at += length;
        (self.token, self.token_end) = (token, self.at);
        Ok(())
    }

    /// A text in quotes that begins `skip` bytes after the current place: its content with doubled quotes made single, and the length
    /// of all of it, `skip` included.
    fn quoted(&mut self, skip: usize) -> Result<(String, usize), Refusal> {
        let inner = &self.text[self.at + skip + 1..];
        let mut content = String::new();
        let mut from = 0;
        while let Some(quote) = inner[from..].find('\'') {
            content.push_str(&inner[from..from + quote]);
            let after = from + quote + 1;
            if !inner[after..].starts_with('\'') {
                return Ok((content, skip + 1 + after));
            }
            content.push('\'');
            from = after + 1;
        }
        self.token_end = self.text.len();
        Err(self.wrong("There is an unterminated string literal"))
    }

    /// `datetime'…'` and its kin.
    fn prefixed(&mut self, prefix: &str) -> Result<(Token, usize), Refusal> {
        let (content, length) = self.quoted(prefix.len())?;
        let value = match prefix {
            "datetime" => parse_date_time(&content).map(Value::DateTime),
            "guid" => parse_guid(&content).map(Value::Guid),
            "X" | "x" | "binary" => parse_hex(&content).map(Value::Binary),
            _ => None,
        };
        self.token_end = self.at + length;
        match value {
            Some(value) => Ok((Token::Literal(value), length)),
            None => Err(self.wrong(&format!("Unrecognized '{prefix}' literal"))),
        }
    }

    fn number(&mut self, rest: &str) -> Result<(Token, usize), Refusal> {
        if rest.starts_with("-INF") {
            return Ok((Token::Literal(Value::Double(f64::NEG_INFINITY)), "-INF".len()));
        }
        let mut length = 0;
        let mut exponent = false;
        for (at, c) in rest.char_indices() {
            let goes_on = match c {
                '0'..='9' | '.' => true,
                '-' | '+' => at == 0 || rest[..at].ends_with(['e', 'E']),
                'e' | 'E' => !std::mem::replace(&mut exponent, true),
                'L' | 'l' | 'D' | 'd' => {
                    length = at + 1;
                    false
                }
                _ => false,
            };
            if !goes_on {
                break;
            }
            length = at + 1;
        }
        self.token_end = self.at + length.max(1);
        let text = &rest[..length];
        let value = match text.as_bytes().last() {
            Some(b'L' | b'l') => text[..length - 1].parse().ok().map(Value::Int64),
            Some(b'D' | b'd') => parse_double(&text[..length - 1]).map(Value::Double),
            _ if text.contains(['.', 'e', 'E']) => parse_double(text).map(Value::Double),
            // What does not fit an Int32 can only mean an Int64.
            _ => match text.parse::<i64>() {
                Ok(number) => Some(i32::try_from(number).map_or(Value::Int64(number), Value::Int32)),
                Err(_) => None,
            },
        };
        let ends_here = !rest[length..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        match value.filter(|_| ends_here) {
            Some(value) => Ok((Token::Literal(value), length)),
            None => Err(self.wrong("Invalid numeric constant")),
        }
    }

    fn unexpected(&self) -> Refusal {
        self.wrong("Syntax error")
    }

    /// Places count characters from zero and name the end of what was wrong, as the service does.
    fn wrong(&self, what: &str) -> Refusal {
        let position = self.text[..self.token_end].chars().count();
        Refusal::from(ErrorCode::InvalidInput).saying(format!("{what} at position {position} in '{}'.", self.text))
    }
}

/// Moves the operators that bind at least as tightly as the next one to where their operands are complete.
fn settle(waiting: &mut Vec<Waiting>, steps: &mut Vec<Step>, next: Waiting) {
    loop {
        let step = match (waiting.last(), next) {
            (Some(Waiting::Not), _) => Step::Not,
            (Some(Waiting::And), _) => Step::And,
            (Some(Waiting::Or), Waiting::Or) => Step::Or,
            _ => return,
        };
        waiting.pop();
        steps.push(step);
    }
}

fn is_arithmetic(word: &str) -> bool {
    matches!(word, "add" | "sub" | "mul" | "div" | "mod")
}

fn unsupported(what: &str) -> Refusal {
    Refusal::from(ErrorCode::NotImplemented)
        .saying(format!("The filter uses {what}, which the service does not support."))
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests;
