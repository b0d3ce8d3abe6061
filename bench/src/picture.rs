//! The figures of a run as a picture: how many times the peer, on a scale that a factor of ten is one step of, and which share of the
//! floor. Readable on light and on dark.

use std::fmt::Write as _;

use crate::{
    measure::{Column, Figures},
    report::{machine, percent},
    request,
};

const ROW: usize = 22;
const TOP: usize = 64;
const NAMES: usize = 330;
const TIMES_WIDTH: f64 = 330.0;
const SHARE_WIDTH: f64 = 190.0;
const GAP: usize = 70;
/// The scale of times ends here; of shares, here.
const TIMES_MAX: f64 = 1000.0;
const SHARE_MAX: f64 = 1.5;

/// One line of the picture: what a run says of one workload.
struct Line<'a> {
    title: &'a str,
    times: Option<f64>,
    /// Samba's server for SMB, Azurite for the rest.
    peer: &'static str,
    share: Option<f64>,
}

pub fn svg(all: &[Figures]) -> String {
    let lines: Vec<Line<'_>> = all.iter().map(line).filter(|l| l.times.is_some() || l.share.is_some()).collect();
    draw(&lines, &format!("{}, {}", machine(), request::today()))
}

fn line(figures: &Figures) -> Line<'_> {
    let (times, peer) = match figures.times(Column::Smbd) {
        Some(times) => (Some(times), "smbd"),
        None => (figures.times(Column::Azurite), "Azurite"),
    };
    Line { title: &figures.title, times, peer, share: figures.share(Column::Floor) }
}

fn draw(lines: &[Line<'_>], caption: &str) -> String {
    let shares_at = NAMES + TIMES_WIDTH as usize + GAP;
    let (width, height) = (shares_at + SHARE_WIDTH as usize + 60, TOP + lines.len() * ROW + 36);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Lazuli beside its peers and its floors\">\n<style>\
         text {{ font: 12px system-ui, sans-serif; fill: #24292f }} .head {{ font-weight: 600 }} .pale {{ fill: #6e7781 }} \
         .times {{ fill: #2456c7 }} .share {{ fill: #1f9d8a }} line {{ stroke: #d0d7de }} .one {{ stroke: #6e7781 }} \
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .pale {{ fill: #8d96a0 }} \
         .times {{ fill: #6f9bff }} .share {{ fill: #4fd1bd }} line {{ stroke: #30363d }} .one {{ stroke: #8d96a0 }} }}\
         </style>\n"
    );
    let bottom = TOP + lines.len() * ROW;
    text(&mut svg, "head", NAMES, 22, "times its peer (Azurite; smbd for SMB)");
    text(&mut svg, "head", shares_at, 22, "share of the floor");
    for times in [1.0, 10.0, 100.0, TIMES_MAX] {
        let x = NAMES as f64 + times_width(times);
        rule(&mut svg, x, bottom, times == 1.0);
        text(&mut svg, "pale", x as usize, TOP - 22, &format!("{times}x"));
    }
    for share in [0.0, 0.5, 1.0, SHARE_MAX] {
        let x = shares_at as f64 + share_width(share);
        rule(&mut svg, x, bottom, share == 1.0);
        text(&mut svg, "pale", x as usize, TOP - 22, &percent(share));
    }
    for (number, line) in lines.iter().enumerate() {
        let y = TOP + number * ROW;
        text(&mut svg, "", 8, y + 13, line.title);
        if let Some(times) = line.times {
            let (from, to) = (times_width(1.0_f64.min(times)), times_width(1.0_f64.max(times)));
            let note = format!("{}{}", shown(times), if line.peer == "smbd" { " smbd" } else { "" });
            bar(&mut svg, "times", NAMES as f64 + from, y, to - from, &note);
        }
        if let Some(share) = line.share {
            bar(&mut svg, "share", shares_at as f64, y, share_width(share), &percent(share));
        }
    }
    text(&mut svg, "pale", 8, height - 10, &format!("One run, full durability: {caption}. More is better."));
    svg + "</svg>\n"
}

fn shown(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}x") } else { format!("{times:.0}x") }
}

/// Where this many times lies on its scale, a tenth being its beginning.
fn times_width(times: f64) -> f64 {
    let (first, last) = (-1.0, TIMES_MAX.log10());
    (times.clamp(0.1, TIMES_MAX).log10() - first) / (last - first) * TIMES_WIDTH
}

fn share_width(share: f64) -> f64 {
    share.clamp(0.0, SHARE_MAX) / SHARE_MAX * SHARE_WIDTH
}

fn rule(svg: &mut String, x: f64, bottom: usize, is_one: bool) {
    let class = if is_one { " class=\"one\"" } else { "" };
    let _ = writeln!(svg, "<line{class} x1=\"{x:.0}\" x2=\"{x:.0}\" y1=\"{}\" y2=\"{bottom}\"/>", TOP - 16);
}

fn bar(svg: &mut String, class: &str, x: f64, y: usize, width: f64, note: &str) {
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{}\" width=\"{:.1}\" height=\"13\" rx=\"2\"/>",
        y + 2,
        width.max(1.0)
    );
    text(svg, "pale", (x + width) as usize + 5, y + 13, note);
}

fn text(svg: &mut String, class: &str, x: usize, y: usize, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_begin_and_end_where_they_say() {
        assert_eq!((times_width(0.1), times_width(TIMES_MAX)), (0.0, TIMES_WIDTH));
        assert_eq!((times_width(1e9), times_width(0.0)), (TIMES_WIDTH, 0.0), "what is beyond is drawn to the edge");
        assert_eq!((share_width(0.75), share_width(9.0)), (SHARE_WIDTH / 2.0, SHARE_WIDTH));
    }

    #[test]
    fn a_picture_has_a_bar_for_every_figure_and_escapes_its_words() {
        let lines = [
            Line { title: "a < b & c", times: Some(40.0), peer: "Azurite", share: Some(0.5) },
            Line { title: "slower", times: Some(0.5), peer: "smbd", share: None },
        ];
        let svg = draw(&lines, "somewhere");
        assert!(svg.contains("a &lt; b &amp; c") && svg.contains("40x") && svg.contains("0.5x smbd"));
        assert_eq!(svg.matches("<rect").count(), 3);
    }
}
