use super::super::value::ValueRef;
use super::*;

fn show_span(span: &Span) -> String {
    let text = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', "+");
    match span.only() {
        Some(key) => format!("={}", text(key)),
        None => format!("[{},{})", text(&span.start), span.end.as_deref().map_or("..".into(), text)),
    }
}

fn show(keys: &Keys) -> String {
    let one = |(span, rows): &(Span, Rows)| {
        let rows: Vec<String> = rows.spans().iter().map(show_span).collect();
        let rows = rows.join(" ");
        if rows == "[,..)" { show_span(span) } else { format!("{}:{rows}", show_span(span)) }
    };
    keys.spans().iter().map(one).collect::<Vec<_>>().join(" | ")
}

/// `+` stands for "right after".
#[test]
fn plans() {
    for line in "
        On                                                  => [,..)
        false                                               =>
        not false                                           => [,..)
        PartitionKey eq 'a'                                 => =a
        'a' eq PartitionKey                                 => =a
        PartitionKey eq 'a' and RowKey eq 'b'               => =a:=b
        PartitionKey eq 'a' and RowKey eq 'b' and On        => =a:=b
        PartitionKey eq 'a' and On                          => =a
        PartitionKey eq 'a' or On                           => [,..)
        PartitionKey eq 'a' and RowKey ge 'b' and RowKey lt 'c' => =a:[b,c)
        PartitionKey eq 'a' and RowKey gt 'b' and RowKey le 'c' => =a:[b+,c+)
        PartitionKey eq 'a' and RowKey ne 'b'               => =a:[,b) [b+,..)
        PartitionKey eq 'a' and not (RowKey eq 'b')         => =a:[,b) [b+,..)
        PartitionKey eq 'a' and not (RowKey lt 'b')         => =a:[b,..)
        PartitionKey eq 'a' and (RowKey eq 'x' or RowKey eq 'y') => =a:=x =y
        PartitionKey eq 'a' and (RowKey lt 'c' or RowKey lt 'd') => =a:[,d)
        PartitionKey eq 'a' or PartitionKey eq 'b'          => =a | =b
        PartitionKey eq 'b' or PartitionKey eq 'a' or PartitionKey eq 'b' => =a | =b
        (PartitionKey eq 'a' and RowKey eq '1') or (PartitionKey eq 'b' and RowKey eq '2') => =a:=1 | =b:=2
        (PartitionKey eq 'a' and RowKey eq '1') or (PartitionKey eq 'a' and RowKey eq '2') => =a:=1 =2
        (PartitionKey eq 'a' and On) or (PartitionKey eq 'b' and Off) => =a | =b
        PartitionKey ge 'a' and PartitionKey lt 'b'         => [a,b)
        PartitionKey gt 'a'                                 => [a+,..)
        PartitionKey le 'a'                                 => [,a+)
        PartitionKey ne 'a'                                 => [,a) | [a+,..)
        not (PartitionKey ne 'a')                           => =a
        not (PartitionKey eq 'a' and On)                    => [,..)
        not (PartitionKey eq 'a' or On)                     => [,a) | [a+,..)
        PartitionKey lt ''                                  =>
        PartitionKey ge ''                                  => [,..)
        PartitionKey gt 'b' and PartitionKey lt 'a'         =>
        PartitionKey eq 'a' and PartitionKey eq 'b'         =>
        PartitionKey eq 1                                   =>
        not (PartitionKey eq 1)                             => [,..)
        PartitionKey                                        =>
        RowKey eq 'b'                                       => [,..):=b
        RowKey eq 'b' and PartitionKey gt 'a'               => [a+,..):=b
        RowKey eq 'b' or PartitionKey eq 'a'                => [,a):=b | =a | [a+,..):=b
        PartitionKey ge 'a' or PartitionKey lt 'a'          => [,..)
    "
    .lines()
    .filter(|line| !line.trim().is_empty())
    {
        let (filter, expected) = line.split_once("=>").expect("filter => plan");
        assert_eq!(show(&plan(&Filter::parse(filter.trim()).expect(filter))), expected.trim(), "{filter}");
    }
}

#[test]
fn from_and_up_to() {
    assert_eq!(show(&Keys::from("a", "b")), "=a:[b,..) | [a+,..)");
    assert_eq!(show(&Keys::from("", "")), "= | [+,..)");
    assert_eq!(show(&Keys::up_to("a", Some("b"))), "[,a) | =a:[,b+)");
    assert_eq!(show(&Keys::up_to("a", None)), "[,a) | =a");
    assert_eq!(show(&Keys::up_to("", Some(""))), "=:=");
    let window = Keys::from("a", "5").and(&Keys::up_to("c", Some("7")));
    for (pk, rk, inside) in [
        ("a", "4", false),
        ("a", "5", true),
        ("b", "", true),
        ("b", "9", true),
        ("c", "7", true),
        ("c", "8", false),
        ("d", "", false),
        ("A", "6", false),
    ] {
        assert_eq!(window.contains(pk, rk), inside, "{pk} {rk}");
    }
}

/// So many spans that they are drawn as one: all that is lost is that more is read.
#[test]
fn many_spans_become_one() {
    let many = |count: usize| {
        let terms: Vec<String> = (0..count).map(|n| format!("PartitionKey eq 'k{n:04}'")).collect();
        plan(&Filter::parse(&terms.join(" or ")).expect("a filter"))
    };
    assert_eq!(many(256).spans().len(), 256);
    let wide = many(5000);
    assert!(wide.spans().len() <= 256);
    assert!((0..5000).all(|n| wide.contains(&format!("k{n:04}"), "any")));
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const KEYS: [&str; 6] = ["", "a", "aa", "b", "c", "\u{e9}"];

type Naive = Box<dyn Fn(&str, &str, bool) -> bool>;

/// A filter as text, and what it means, by two hands that share nothing.
fn random(chance: &mut Chance, depth: usize) -> (String, Naive) {
    let kind = if depth == 0 { chance.below(4) } else { chance.below(9) };
    match kind {
        0 => ("On".into(), Box::new(|_, _, on| on)),
        1 => {
            let value = chance.below(2) == 1;
            (value.to_string(), Box::new(move |_, _, _| value))
        }
        2 | 3 => {
            let (of_partition, word, literal) =
                (chance.below(2) == 0, chance.pick(&["eq", "ne", "gt", "ge", "lt", "le"]), chance.pick(&KEYS));
            let name = if of_partition { "PartitionKey" } else { "RowKey" };
            let naive = move |pk: &str, rk: &str, _: bool| {
                let key = if of_partition { pk } else { rk };
                match word {
                    "eq" => key == literal,
                    "ne" => key != literal,
                    "gt" => key > literal,
                    "ge" => key >= literal,
                    "lt" => key < literal,
                    _ => key <= literal,
                }
            };
            (format!("{name} {word} '{literal}'"), Box::new(naive))
        }
        4 | 5 => {
            let (inner, naive) = random(chance, depth - 1);
            (format!("not ({inner})"), Box::new(move |pk, rk, on| !naive(pk, rk, on)))
        }
        _ => {
            let ((left, a), (right, b)) = (random(chance, depth - 1), random(chance, depth - 1));
            if kind == 6 {
                (format!("({left}) or ({right})"), Box::new(move |pk, rk, on| a(pk, rk, on) || b(pk, rk, on)))
            } else {
                (format!("({left}) and ({right})"), Box::new(move |pk, rk, on| a(pk, rk, on) && b(pk, rk, on)))
            }
        }
    }
}

/// Planner and evaluator over a sorted table find what a naive reading finds over everything.
#[test]
fn planned_and_naive_agree() {
    let mut chance = Chance(42);
    for _ in 0..4000 {
        let (text, naive) = random(&mut chance, 5);
        let filter = Filter::parse(&text).expect(&text);
        let keys = plan(&filter);
        let spans = keys.spans();
        assert!(
            spans.windows(2).all(|pair| pair[0].0.end.as_ref().is_some_and(|end| *end <= pair[1].0.start)),
            "{text}"
        );
        for pk in KEYS {
            for rk in KEYS {
                for on in [true, false] {
                    let property = |name: &str| match name {
                        "PartitionKey" => Some(ValueRef::String(pk)),
                        "RowKey" => Some(ValueRef::String(rk)),
                        "On" => Some(ValueRef::Boolean(on)),
                        _ => None,
                    };
                    let found = keys.contains(pk, rk) && filter.matches(property);
                    assert_eq!(found, naive(pk, rk, on), "{text}: {pk} {rk} {on}");
                }
            }
        }
    }
}
