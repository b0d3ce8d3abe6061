//! A moment in 100 ns ticks since 0001-01-01T00:00:00Z, the unit of ETags, snapshot names and table timestamps; and the
//! three ways the services write it down.

/// Ticks in a second.
pub const TICKS_PER_SECOND: u64 = 10_000_000;

/// From 0001-01-01 to 1601-01-01.
const TICKS_TO_1601: u64 = 584_388 * SECONDS_PER_DAY * TICKS_PER_SECOND;
const DAYS_TO_UNIX_EPOCH: i64 = 719_162; // from 0001-01-01 to 1970-01-01
const SECONDS_PER_DAY: u64 = 86_400;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const UNIX_EPOCH: Timestamp = Timestamp(DAYS_TO_UNIX_EPOCH as u64 * SECONDS_PER_DAY * TICKS_PER_SECOND);
    /// The last tick of the year 9999, beyond which no service writes a date.
    pub const MAX: Timestamp = Timestamp(3_155_378_975_999_999_999);

    pub const fn from_ticks(ticks: u64) -> Self {
        Timestamp(ticks)
    }

    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// As Windows counts: from 1601 on. What was before is its first moment.
    pub const fn filetime(self) -> u64 {
        self.0.saturating_sub(TICKS_TO_1601)
    }

    /// The opposite; moments after the last one are the last one.
    pub const fn from_filetime(filetime: u64) -> Timestamp {
        let ticks = filetime.saturating_add(TICKS_TO_1601);
        if ticks > Timestamp::MAX.0 { Timestamp::MAX } else { Timestamp(ticks) }
    }

    pub const fn plus_ticks(self, ticks: u64) -> Self {
        Timestamp(self.0.saturating_add(ticks))
    }

    pub const fn plus_seconds(self, seconds: u64) -> Self {
        Timestamp(self.0.saturating_add(seconds.saturating_mul(TICKS_PER_SECOND)))
    }

    pub const fn minus_seconds(self, seconds: u64) -> Self {
        Timestamp(self.0.saturating_sub(seconds.saturating_mul(TICKS_PER_SECOND)))
    }

    /// Whole seconds, the grain of Last-Modified and of date conditions.
    pub const fn seconds(self) -> u64 {
        self.0 / TICKS_PER_SECOND
    }

    /// Whole days from `earlier` to here.
    pub const fn days_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0) / (SECONDS_PER_DAY * TICKS_PER_SECOND)
    }

    /// `Fri, 26 Jun 2015 23:39:12 GMT`
    pub fn http_date(self) -> String {
        let (y, mo, d, h, mi, s) = self.civil();
        let weekday = WEEKDAYS[((self.seconds() / SECONDS_PER_DAY + 1) % 7) as usize]; // 0001-01-01 was a Monday
        let mut text = String::with_capacity(29);
        text.push_str(weekday);
        text.push_str(", ");
        push_number(&mut text, d, 2);
        text.push(' ');
        text.push_str(MONTHS[mo as usize - 1]);
        text.push(' ');
        push_number(&mut text, y, 4);
        text.push(' ');
        push_number(&mut text, h, 2);
        text.push(':');
        push_number(&mut text, mi, 2);
        text.push(':');
        push_number(&mut text, s, 2);
        text.push_str(" GMT");
        text
    }

    /// `2019-05-09T00:53:41.0741618Z`
    pub fn iso8601(self) -> String {
        let (y, mo, d, h, mi, s) = self.civil();
        let mut text = String::with_capacity(28);
        let of_year = if y > 9999 { 5 } else { 4 };
        for (number, width, behind) in
            [(y, of_year, '-'), (mo, 2, '-'), (d, 2, 'T'), (h, 2, ':'), (mi, 2, ':'), (s, 2, '.')]
        {
            push_number(&mut text, number, width);
            text.push(behind);
        }
        push_number(&mut text, self.0 % TICKS_PER_SECOND, 7);
        text.push('Z');
        text
    }

    /// Reads the three forms HTTP allows: RFC 1123, RFC 850 and asctime.
    pub fn parse_http_date(text: &str) -> Option<Self> {
        // As every client writes it, each part in its place; other blanks and the older forms are taken apart into words.
        if let ([_, _, _, b',', b' ', _, _, b' ', _, _, _, b' ', _, _, _, _, b' ', rest @ ..], true) =
            (text.as_bytes(), text.is_ascii())
            && let [.., b' ', b'G', b'M', b'T'] = rest
            && rest.len() == 12
        {
            short_weekday(&text[..3])?;
            let (day, month, year) = (&text[5..7], &text[8..11], &text[12..16]);
            return at(year_of_four(year)?, month_number(month)?, two_digits(day)?, &text[17..25]);
        }
        let text = text.trim();
        let (mut words, mut count) = ([""; 6], 0);
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            *words.get_mut(count)? = word;
            count += 1;
        }
        match &words[..count] {
            [weekday, day, month, year, time, "GMT"] => {
                short_weekday(weekday)?;
                at(year_of_four(year)?, month_number(month)?, two_digits(day)?, time)
            }
            [weekday, date, time, "GMT"] => {
                WEEKDAYS_LONG.iter().find(|name| *name == weekday)?;
                let (day, rest) = date.split_once('-')?;
                let (month, year) = rest.split_once('-')?;
                // Two digits: a year more than about fifty years ahead means the past (RFC 9110 5.6.7).
                let year = if year.len() == 2 {
                    let year = two_digits(year)?;
                    if year >= 70 { 1900 + year } else { 2000 + year }
                } else {
                    year_of_four(year)?
                };
                at(year, month_number(month)?, two_digits(day)?, time)
            }
            [weekday, month, day, time, year] => {
                short_weekday(weekday)?;
                let day = day.parse().ok().filter(|_| day.len() <= 2 && day.bytes().all(|b| b.is_ascii_digit()))?;
                at(year_of_four(year)?, month_number(month)?, day, time)
            }
            _ => None,
        }
    }

    /// Reads `YYYY-MM-DD`, `YYYY-MM-DDThh:mmTZD` and `YYYY-MM-DDThh:mm:ss[.f{1,7}]TZD`, TZD being `Z` or an offset.
    pub fn parse_iso8601(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if !text.is_ascii() || bytes.len() < 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let date =
            |time: &str| at(year_of_four(&text[0..4])?, two_digits(&text[5..7])?, two_digits(&text[8..10])?, time);
        if bytes.len() == 10 {
            return date("00:00:00");
        }
        if bytes[10] != b'T' {
            return None;
        }
        let rest = &text[11..];
        let zone_at = rest.find(['Z', '+', '-'])?;
        let (clock, zone) = rest.split_at(zone_at);
        let (clock, fraction) = match clock.split_once('.') {
            Some((clock, digits)) if clock.len() == 8 && (1..=7).contains(&digits.len()) => {
                if !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                (clock.to_string(), format!("{digits:0<7}").parse::<u64>().ok()?)
            }
            Some(_) => return None,
            None if clock.len() == 5 => (format!("{clock}:00"), 0),
            None => (clock.to_string(), 0),
        };
        let moment = date(&clock)?.plus_ticks(fraction);
        match zone.as_bytes() {
            b"Z" => Some(moment),
            [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
                let (hours, minutes) = (two_digits(&zone[1..3])?, two_digits(&zone[4..6])?);
                if hours > 14 || minutes > 59 {
                    return None;
                }
                let ticks = (hours * 3600 + minutes * 60) * TICKS_PER_SECOND;
                // An offset ahead of UTC is an earlier moment.
                let ticks = if *sign == b'+' { moment.0.checked_sub(ticks)? } else { moment.0.checked_add(ticks)? };
                (ticks <= Self::MAX.0).then_some(Timestamp(ticks))
            }
            _ => None,
        }
    }

    /// Year, month, day, hour, minute, second.
    fn civil(self) -> (u64, u64, u64, u64, u64, u64) {
        let seconds = self.seconds();
        let (days, second_of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        // Count from 0000-03-01, so that a leap day is the last day of its year.
        let days = days + 306;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        (year, month, day, second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60)
    }
}

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const WEEKDAYS_LONG: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn push_number(text: &mut String, number: u64, width: usize) {
    let mut divisor = 10u64.pow(width as u32 - 1);
    for _ in 0..width {
        text.push((b'0' + (number / divisor % 10) as u8) as char);
        divisor /= 10;
    }
}

fn short_weekday(text: &str) -> Option<()> {
    WEEKDAYS.contains(&text).then_some(())
}

fn month_number(text: &str) -> Option<u64> {
    MONTHS.iter().position(|name| *name == text).map(|index| index as u64 + 1)
}

fn two_digits(text: &str) -> Option<u64> {
    (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn year_of_four(text: &str) -> Option<u64> {
    (text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn at(year: u64, month: u64, day: u64, time: &str) -> Option<Timestamp> {
    let bytes = time.as_bytes();
    if bytes.len() != 8 || bytes[2] != b':' || bytes[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (two_digits(&time[0..2])?, two_digits(&time[3..5])?, two_digits(&time[6..8])?);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || day == 0 || day > days_in_month || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 306;
    Some(Timestamp((days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second) * TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (ticks, http, iso) in [
            (0, "Mon, 01 Jan 0001 00:00:00 GMT", "0001-01-01T00:00:00.0000000Z"),
            (Timestamp::UNIX_EPOCH.ticks(), "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.0000000Z"),
            (635_709_587_520_000_000, "Fri, 26 Jun 2015 23:39:12 GMT", "2015-06-26T23:39:12.0000000Z"),
            (630_874_655_999_999_999, "Tue, 29 Feb 2000 23:59:59 GMT", "2000-02-29T23:59:59.9999999Z"),
            (Timestamp::MAX.ticks(), "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59.9999999Z"),
        ] {
            let moment = Timestamp::from_ticks(ticks);
            assert_eq!(moment.http_date(), http);
            assert_eq!(moment.iso8601(), iso);
            assert_eq!(Timestamp::parse_iso8601(iso), Some(moment));
            assert_eq!(Timestamp::parse_http_date(http).map(Timestamp::seconds), Some(moment.seconds()));
        }
    }

    #[test]
    fn every_day_round_trips() {
        let mut moment = Timestamp::from_ticks(0);
        for _ in 0..3_652_059 / 97 {
            assert_eq!(Timestamp::parse_iso8601(&moment.iso8601()), Some(moment));
            assert_eq!(Timestamp::parse_http_date(&moment.http_date()), Some(moment));
            moment = moment.plus_seconds(97 * SECONDS_PER_DAY);
        }
    }

    #[test]
    fn other_forms_of_the_same_moment() {
        let expected = Timestamp::parse_iso8601("1994-11-06T08:49:37Z");
        assert!(expected.is_some());
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(Timestamp::parse_http_date(text), expected, "{text}");
        }
        for text in ["1994-11-06T09:49:37+01:00", "1994-11-06T08:49:37.0Z", "1994-11-06T00:49:37-08:00"] {
            assert_eq!(Timestamp::parse_iso8601(text), expected, "{text}");
        }
        assert_eq!(Timestamp::parse_iso8601("1994-11-06"), Timestamp::parse_iso8601("1994-11-06T00:00Z"));
    }

    #[test]
    fn nonsense_is_no_date() {
        for text in [
            "",
            "now",
            "Sun, 31 Feb 2021 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 PST",
            "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 0000 08:49:37 GMT",
            "06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(Timestamp::parse_http_date(text), None, "{text}");
        }
        for text in [
            "",
            "1994",
            "1994-13-01",
            "1994-11-06T",
            "1994-11-06T08:49:37",
            "1994-11-06T08:49:37.Z",
            "1994-11-06T08:49:37.00000000Z",
            "1994-11-06T08:49:37+1:00",
            "1994-11-06 08:49:37Z",
            "19\u{e9}4-11-06",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert_eq!(Timestamp::parse_iso8601(text), None, "{text}");
        }
    }
}
