use super::*;

const PERSON: &str = "S-1-5-21-2127521184-1604012920-1887927527-21560751";
const GROUP: &str = "S-1-5-21-2127521184-1604012920-1887927527-513";
const GUEST: &str = "S-1-5-21-397955417-626881126-188441444-3053964";

fn sddl(text: &str) -> SecurityDescriptor {
    SecurityDescriptor::parse_sddl(text).unwrap_or_else(|| panic!("{text}"))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex")).collect()
}

/// The same descriptor in the form Windows writes and in others that mean the same.
#[test]
fn written_as_windows_does() {
    for (canonical, others) in [
        ("O:SYG:SYD:", &["o:syg:syd:", "D:O:SYG:SY", "G:S-1-5-18O:S-1-5-18D:", "O:S-1-0x000000000005-18G:SYD:"][..]),
        ("O:SYG:SYD:NO_ACCESS_CONTROL", &["D:NO_ACCESS_CONTROLG:SYO:SY"]),
        ("O:SYG:SYD:PNO_ACCESS_CONTROLS:NO_ACCESS_CONTROL", &[]),
        (
            "O:SYG:SYD:PARAI(A;;FA;;;WD)",
            &["O:SYG:SYD:AIARPP(A;;0x1F01FF;;;S-1-1-0)", "O:SYG:SYD:PARAI(A;;2032127;;;WD)"],
        ),
        ("O:SYG:SYD:(A;;FA;;;WD)", &["O:SYG:SYD:(A;;07600777;;;WD)", "O:SYG:SYD:(A;;FAFRFW;;;WD)"]),
        (
            "O:BAG:BUD:(A;OICI;FR;;;CO)(D;NP;FW;;;CG)(A;IOID;FX;;;NU)",
            &["O:BAG:BUD:(A;CIOI;0x120089;;;CO)(D;NP;0x120116;;;CG)(A;IDIO;0x1200a0;;;NU)"],
        ),
        ("O:BAG:BUD:(A;;KA;;;AN)(A;;KR;;;IU)(A;;KW;;;SU)", &["O:BAG:BUD:(A;;KA;;;AN)(A;;KX;;;IU)(A;;KW;;;SU)"]),
        // As the service answered what its clients' own tests sent.
        (
            "O:AOG:S-1-5-21-397955417-626881126-188441444-512D:(A;;CCDCLCSWRPWPRCWDWOGA;;;S-1-0-0)",
            &["O:S-1-5-32-548G:S-1-5-21-397955417-626881126-188441444-512D:(A;;RPWPCCDCLCSWRCWDWOGA;;;S-1-0-0)"],
        ),
        (
            "O:SYG:SYD:(A;OICI;0x1301bf;;;AU)(A;OICIIO;GXGR;;;BU)",
            &["O:SYG:SYD:(A;CIOI;0x1301BF;;;AU)(A;IOOICI;GRGX;;;BU)"],
        ),
        ("O:SYG:SYD:(A;;;;;WD)", &["O:SYG:SYD:(A;;0;;;WD)", "O:SYG:SYD:(A;;0x0;;;WD)"]),
        ("O:SYG:SYD:S:", &[]),
        (
            "O:SYG:SYD:S:PAI(AU;SAFA;FA;;;WD)(AL;;CC;;;WD)(ML;;NWNRNX;;;LW)",
            &["S:AIP(AU;FASA;FA;;;WD)(AL;;CC;;;WD)(ML;;0x7;;;LW)O:SYG:SYD:"],
        ),
        ("O:SYG:SYD:S:(ML;;0x107;;;HI)", &[]),
        (
            "O:S-1-0x123456789abc-1-4294967295G:S-1-4294967295-1D:",
            &["O:S-1-0X123456789ABC-1-4294967295G:S-1-0x0000ffffffff-1D:"],
        ),
        (
            "O:SYG:SYD:(OA;CR;CR;01234567-89ab-cdef-0123-456789abcdef;;PS)\
             (OD;;RP;;01234567-89ab-cdef-0123-456789abcdef;PS)\
             (OA;;RP;01234567-89ab-cdef-0123-456789abcdef;fedcba98-7654-3210-fedc-ba9876543210;PS)(OA;;RP;;;PS)\
             S:(OU;;RP;;;PS)(OL;;RP;;;PS)",
            &[],
        ),
    ] {
        let descriptor = sddl(canonical);
        assert_eq!(descriptor.to_sddl(), canonical);
        assert_eq!(
            SecurityDescriptor::parse_binary(&descriptor.to_binary()).as_ref(),
            Some(&descriptor),
            "{canonical}"
        );
        for other in others {
            assert_eq!(sddl(other), descriptor, "{other}");
            assert_eq!(sddl(other).key(), descriptor.key(), "{other}");
        }
    }
}

#[test]
fn texts_that_are_refused() {
    for text in [
        "",
        "invalidPermission",
        // Owner, group and the discretionary list must be there.
        "O:SYG:SY",
        "O:SYD:(A;;FA;;;SY)",
        "G:SYD:(A;;FA;;;SY)",
        // Once each.
        "O:SYG:SYD:D:",
        "O:SYO:SYG:SYD:",
        "O:SYG:SYD:S:S:",
        "O:SYG:SYD:X:",
        "O:SYG:SYD: ",
        " O:SYG:SYD:",
        // SIDs.
        "O:XXG:SYD:",
        "O:G:SYD:",
        "O:SG:SYD:",
        "O:DAG:DUD:",
        "O:LAG:SYD:",
        "O:S-1-5G:SYD:",
        "O:S-2-5-18G:SYD:",
        "O:S-1-5-G:SYD:",
        "O:S-1-5--18G:SYD:",
        "O:S-1-5-+18G:SYD:",
        "O:S-1-5-4294967296G:SYD:",
        "O:S-1-4294967296-1G:SYD:",
        "O:S-1-0x1000000000000-1G:SYD:",
        "O:S-1-0x-1G:SYD:",
        "O:S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16G:SYD:",
        // Lists.
        "O:SYG:SYD:XP",
        "O:SYG:SYD:NO_ACCESS_CONTROL(A;;FA;;;SY)",
        "O:SYG:SYD:NO_ACCESS_CONTROLP",
        "O:SYG:SYD:(A;;FA;;;SY",
        "O:SYG:SYD:(A;;FA;;;SY))",
        "O:SYG:SYD:(A;;FA;;;SY)P",
        "O:SYG:SYD:(A;;FA;;SY)",
        "O:SYG:SYD:(A;;FA;;;)",
        "O:SYG:SYD:()",
        "O:SYG:SYD:(A;;FA;;;SY;)",
        "O:SYG:SYD:(A;;FA;;;SY) (A;;FA;;;BA)",
        // Kinds, and kinds in the wrong list.
        "O:SYG:SYD:(B;;FA;;;SY)",
        "O:SYG:SYD:(;;FA;;;SY)",
        "O:SYG:SYD:(AU;;FA;;;SY)",
        "O:SYG:SYD:S:(A;;FA;;;SY)",
        "O:SYG:SYD:(XA;;FX;;;SY;(@User.Title==\"PM\"))",
        "O:SYG:SYD:(XD;;FX;;;SY;(a))",
        "O:SYG:SYD:(ZA;;FX;;;SY;(a))",
        "O:SYG:SYD:(XA;;FX;;;SY)",
        "O:SYG:SYD:S:(RA;;;;;WD;(\"Secrecy\",TU,0,3))",
        "O:SYG:SYD:S:(SP;;;;;WD)",
        // Flags.
        "O:SYG:SYD:(A;OIX;FA;;;SY)",
        "O:SYG:SYD:(A;O;FA;;;SY)",
        // Rights.
        "O:SYG:SYD:(A;;F;;;SY)",
        "O:SYG:SYD:(A;;FA ;;;SY)",
        "O:SYG:SYD:(A;;0x;;;SY)",
        "O:SYG:SYD:(A;;0x+1;;;SY)",
        "O:SYG:SYD:(A;;0x1ffffffff;;;SY)",
        "O:SYG:SYD:(A;;0xFAFR;;;SY)",
        "O:SYG:SYD:(A;;1FA;;;SY)",
        "O:SYG:SYD:(A;;09;;;SY)",
        "O:SYG:SYD:(A;;-1;;;SY)",
        "O:SYG:SYD:(A;;NW;;;SY)",
        "O:SYG:SYD:S:(ML;;FA;;;LW)",
        // Types of objects.
        "O:SYG:SYD:(A;;FA;01234567-89ab-cdef-0123-456789abcdef;;SY)",
        "O:SYG:SYD:(OA;;FA;01234567-89ab-cdef-0123-456789abcde;;SY)",
        "O:SYG:SYD:(OA;;FA;0123456789abcdef0123456789abcdef;;SY)",
        "O:SYG:SYD:(OA;;FA;x;;SY)",
        // Not ASCII, where something is cut off.
        "é:SYG:SYD:",
        "O:éG:SYD:",
        "O:SYG:SYD:é",
        "O:SYG:SYD:(A;é;FA;;;SY)",
        "O:SYG:SYD:(A;;é;;;SY)",
        "O:SYG:SYD:(A;;FA;;;é)",
        "O:SYG:SYD:(OA;;FA;éééééééééééééééééé;;SY)",
    ] {
        assert_eq!(SecurityDescriptor::parse_sddl(text), None, "{text}");
    }
}

/// Two that the service's own clients send and expect back to the bit, and one with every part, put together by hand.
#[test]
fn bytes_by_hand() {
    let of_clients =
        format!("O:{PERSON}G:{GROUP}D:AI(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;{GUEST})S:NO_ACCESS_CONTROL");
    for (text, hex) in [
        (
            of_clients.as_str(),
            "01 00 1484 6c000000 88000000 00000000 14000000
             02 00 5800 0300 0000
             00 00 1400 ff011f00 01 01 000000000005 12000000
             00 00 1800 ff011f00 01 02 000000000005 20000000 20020000
             00 00 2400 a9001200 01 05 000000000005 15000000 5951b817 66725d25 64633b0b 8c992e00
             01 05 000000000005 15000000 a065cf7e 784b9b5f e77c8770 affd4801
             01 05 000000000005 15000000 a065cf7e 784b9b5f e77c8770 01020000",
        ),
        (
            "O:SYG:SYD:(A;;FA;;;BA)(A;;FA;;;SY)(A;;0x1200a9;;;BU)(A;;0x1301bf;;;AU)(A;;FA;;;SY)",
            "01 00 0480 88000000 94000000 00000000 14000000
             02 00 7400 0500 0000
             00 00 1800 ff011f00 01 02 000000000005 20000000 20020000
             00 00 1400 ff011f00 01 01 000000000005 12000000
             00 00 1800 a9001200 01 02 000000000005 20000000 21020000
             00 00 1400 bf011300 01 01 000000000005 0b000000
             00 00 1400 ff011f00 01 01 000000000005 12000000
             01 01 000000000005 12000000
             01 01 000000000005 12000000",
        ),
        (
            "O:S-1-0x123456789abc-7G:WDD:PAR(OA;CI;RP;01234567-89ab-cdef-0123-456789abcdef;;PS)\
             S:PAI(AU;OISAFA;GW;;;WD)",
            "01 00 14b9 60000000 6c000000 14000000 30000000
             02 00 1c00 0100 0000
             02 c1 1400 00000040 01 01 000000000001 00000000
             04 00 3000 0100 0000
             05 02 2800 10000000 01000000 67452301 ab89 efcd 0123 456789abcdef 01 01 000000000005 0a000000
             01 01 123456789abc 07000000
             01 01 000000000001 00000000",
        ),
    ] {
        let (descriptor, bytes) = (sddl(text), unhex(hex));
        assert_eq!(descriptor.to_binary(), bytes, "{text}");
        assert_eq!(SecurityDescriptor::parse_binary(&bytes), Some(descriptor), "{text}");
    }
}

/// A change to bytes that are right, and what is read then.
#[test]
fn bytes_that_differ() {
    let right = sddl("O:SYG:BAD:(A;;FA;;;WD)S:(AU;SA;FA;;;WD)").to_binary();
    // Header 0, system list 20 with its entry at 28, discretionary list 48 with its entry at 56, owner 76, group 88.
    assert_eq!((right.len(), right[16], right[4], right[8]), (104, 48, 76, 88));
    let changed = |changes: &[(usize, u8)]| {
        let mut bytes = right.clone();
        changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        SecurityDescriptor::parse_binary(&bytes).map(|descriptor| descriptor.to_sddl())
    };
    let whole = "O:SYG:BAD:(A;;FA;;;WD)S:(AU;SA;FA;;;WD)";
    for (changes, expected) in [
        (&[][..], Some(whole)),
        // Defaulted owner, group and lists, a resource manager's byte: not kept.
        (&[(1, 7), (2, 0x3f)], Some(whole)),
        (&[(2, 0x04)], Some("O:SYG:BAD:(A;;FA;;;WD)")),
        (&[(12, 0)], Some("O:SYG:BAD:(A;;FA;;;WD)S:NO_ACCESS_CONTROL")),
        (&[(16, 0)], Some("O:SYG:BAD:NO_ACCESS_CONTROLS:(AU;SA;FA;;;WD)")),
        (&[(48, 4)], Some(whole)),
        // Parts over one another; a list with room behind its entries.
        (&[(4, 88)], Some("O:BAG:BAD:(A;;FA;;;WD)S:(AU;SA;FA;;;WD)")),
        (&[(50, 40)], Some(whole)),
        (&[(52, 0)], Some("O:SYG:BAD:S:(AU;SA;FA;;;WD)")),
        // Revisions, not self-relative, no discretionary list.
        (&[(0, 2)], None),
        (&[(3, 0)], None),
        (&[(2, 0x10)], None),
        (&[(48, 3)], None),
        (&[(76, 2)], None),
        // Nowhere, in the header, beyond the end.
        (&[(4, 0)], None),
        (&[(8, 0)], None),
        (&[(4, 19)], None),
        (&[(8, 104)], None),
        (&[(4, 255), (7, 255)], None),
        (&[(16, 100)], None),
        // Lists and entries that are shorter or longer than what is in them.
        (&[(50, 27)], None),
        (&[(50, 57)], None),
        (&[(52, 2)], None),
        (&[(58, 0)], None),
        (&[(58, 7)], None),
        (&[(58, 16)], None),
        (&[(58, 24)], None),
        // Kinds: unknown, conditional, of the other list.
        (&[(56, 4)], None),
        (&[(56, 9)], None),
        (&[(56, 2)], None),
        (&[(28, 0)], None),
        // SIDs with none or too many numbers.
        (&[(65, 0)], None),
        (&[(65, 16)], None),
        (&[(89, 3)], None),
    ] {
        assert_eq!(changed(changes).as_deref(), expected, "{changes:?}");
    }
    for end in 0..right.len() {
        assert_eq!(SecurityDescriptor::parse_binary(&right[..end]), None, "{end}");
    }
}

#[test]
fn at_most_64_kib() {
    // 20 bytes of header, 8 of the list, 24 of owner and group, 20 of each entry.
    let with_entries = |count: usize| format!("O:SYG:SYD:{}", "(A;;FA;;;WD)".repeat(count));
    let most = (SECURITY_DESCRIPTOR_BYTES_MAX - 52) / 20;
    let descriptor = sddl(&with_entries(most));
    assert_eq!(SecurityDescriptor::parse_binary(&descriptor.to_binary()), Some(descriptor));
    assert_eq!(SecurityDescriptor::parse_sddl(&with_entries(most + 1)), None);
    assert_eq!(SecurityDescriptor::parse_binary(&vec![1; SECURITY_DESCRIPTOR_BYTES_MAX + 1]), None);
}

#[test]
fn keys() {
    let key = default_descriptor().key();
    assert_eq!(PermissionKey::parse(&key.to_string()), Some(key));
    assert_ne!(sddl("O:SYG:SYD:").key(), sddl("O:SYG:SYD:P").key());
    assert_ne!(sddl("O:SYG:SYD:").key(), sddl("O:SYG:SYD:S:NO_ACCESS_CONTROL").key());
    for (text, expected) in [
        ("11680444563946999947*422928105932735866", Some(PermissionKey(11680444563946999947, 422928105932735866))),
        ("0*18446744073709551615", Some(PermissionKey(0, u64::MAX))),
        ("0*18446744073709551616", None),
        ("1", None),
        ("1*", None),
        ("*1", None),
        ("1*2*3", None),
        ("+1*2", None),
        ("1* 2", None),
        ("-1*2", None),
        ("invalidPermission", None),
    ] {
        assert_eq!(PermissionKey::parse(text), expected, "{text}");
    }
}

#[test]
fn what_is_inherited() {
    for (parent, file, directory) in [
        // The default comes down to directories as it is, and to files as recorded of the service.
        (
            DEFAULT_SDDL,
            "O:SYG:SYD:(A;;FA;;;BA)(A;;FA;;;SY)(A;;0x1200a9;;;BU)(A;;0x1301bf;;;AU)(A;;FA;;;SY)",
            DEFAULT_SDDL,
        ),
        ("O:BAG:BUD:PAI(A;OICIID;FR;;;WD)", "O:SYG:SYD:(A;;FR;;;WD)", "O:SYG:SYD:(A;OICI;FR;;;WD)"),
        (
            "O:BAG:BUD:(A;OI;FR;;;WD)(A;CI;FR;;;BA)",
            "O:SYG:SYD:(A;;FR;;;WD)",
            "O:SYG:SYD:(A;OIIO;FR;;;WD)(A;CI;FR;;;BA)",
        ),
        ("O:BAG:BUD:(A;OINP;FR;;;WD)(A;CINP;FR;;;BA)", "O:SYG:SYD:(A;;FR;;;WD)", "O:SYG:SYD:(A;;FR;;;BA)"),
        ("O:BAG:BUD:(D;OICI;GAGW;;;CG)", "O:SYG:SYD:(D;;FA;;;SY)", "O:SYG:SYD:(D;;FA;;;SY)(D;OICIIO;GAGW;;;CG)"),
        (
            "O:BAG:BUD:(A;OICI;FR;;;WD)(OA;OICI;FR;;01234567-89ab-cdef-0123-456789abcdef;WD)\
             S:(AU;OICISA;FW;;;WD)(ML;;NW;;;LW)",
            "O:SYG:SYD:(A;;FR;;;WD)S:(AU;SA;FW;;;WD)",
            "O:SYG:SYD:(A;OICI;FR;;;WD)S:(AU;OICISA;FW;;;WD)",
        ),
        // Nothing comes down.
        ("O:BAG:BUD:(A;;FA;;;WD)S:", "default", "default"),
        ("O:BAG:BUD:NO_ACCESS_CONTROLS:NO_ACCESS_CONTROL", "default", "default"),
    ] {
        for (heir, expected) in [(Heir::File, file), (Heir::Directory, directory)] {
            let expected =
                if expected == "default" { default_descriptor().inherited(heir).to_sddl() } else { expected.into() };
            assert_eq!(sddl(parent).inherited(heir).to_sddl(), expected, "{heir:?} of {parent}");
        }
    }
    // One entry becomes two: what would be too long is not made.
    let long = sddl(&format!("O:SYG:SYD:{}", "(A;OICI;GA;;;WD)".repeat(3000)));
    assert_eq!(&long.inherited(Heir::Directory), default_descriptor());
}

/// As recorded: what is set gets a null system list, what is created with loses it and the mark of inheritance.
#[test]
fn set_and_created() {
    for (given, set, created) in [
        ("O:SYG:SYD:P(A;;FA;;;AU)", "O:SYG:SYD:P(A;;FA;;;AU)S:NO_ACCESS_CONTROL", "O:SYG:SYD:P(A;;FA;;;AU)"),
        (
            "O:SYG:SYD:AI(A;;FA;;;SY)S:NO_ACCESS_CONTROL",
            "O:SYG:SYD:AI(A;;FA;;;SY)S:NO_ACCESS_CONTROL",
            "O:SYG:SYD:(A;;FA;;;SY)",
        ),
        ("O:SYG:SYD:S:AI(AU;SA;FA;;;WD)", "O:SYG:SYD:S:AI(AU;SA;FA;;;WD)", "O:SYG:SYD:S:AI(AU;SA;FA;;;WD)"),
    ] {
        assert_eq!(sddl(given).as_set().to_sddl(), set, "{given}");
        assert_eq!(sddl(given).as_created().to_sddl(), created, "{given}");
    }
}

/// Whatever is sent: a refusal, or a value that both forms give back.
#[test]
fn mutations_neither_panic_nor_get_lost() {
    let mut state = 0x5EED_u64;
    let mut draw = |below: usize| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let seeds = [
        DEFAULT_SDDL,
        "O:S-1-0x123456789abc-7G:WDD:PAR(OA;CI;RP;01234567-89ab-cdef-0123-456789abcdef;;PS)S:PAI(AU;OISAFA;GW;;;WD)",
        "O:SYG:SYD:PNO_ACCESS_CONTROLS:(ML;;NWNR;;;LW)(OU;;0x1;;;S-1-5-21-1-2-3-4)",
    ];
    let pieces =
        ["(", ")", ";", ":", "-", "0", "x", "S-1-", "A", "NO_ACCESS_CONTROL", "é", "9999999999", "D:", "(A;;FA;;;SY)"];
    let mut accepted = 0;
    let mut check = |descriptor: Option<SecurityDescriptor>| {
        let Some(descriptor) = descriptor else { return };
        accepted += 1;
        let (text, bytes) = (descriptor.to_sddl(), descriptor.to_binary());
        assert_eq!(bytes.len(), descriptor.binary_bytes());
        assert_eq!(SecurityDescriptor::parse_sddl(&text).as_ref(), Some(&descriptor), "{text}");
        assert_eq!(SecurityDescriptor::parse_binary(&bytes).as_ref(), Some(&descriptor), "{text}");
        descriptor.inherited(Heir::File);
        descriptor.inherited(Heir::Directory);
    };
    for round in 0..5000 {
        let seed = seeds[round % seeds.len()];
        let mut chars: Vec<char> = seed.chars().collect();
        let mut bytes = sddl(seed).to_binary();
        for _ in 0..=draw(3) {
            let (start, end) = (draw(chars.len()), draw(4));
            chars.splice(start..(start + end).min(chars.len()), pieces[draw(pieces.len())].chars());
            let at = draw(bytes.len());
            bytes[at] = [0, 1, 4, 0x14, 0x7f, 0xff, draw(256) as u8][draw(7)];
        }
        check(SecurityDescriptor::parse_sddl(&chars.iter().collect::<String>()));
        check(SecurityDescriptor::parse_binary(&bytes));
        bytes.truncate(draw(bytes.len()));
        check(SecurityDescriptor::parse_binary(&bytes));
    }
    assert!(accepted > 500, "{accepted}");
}
