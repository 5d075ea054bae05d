use proptest::prelude::*;

use super::*;

#[test]
fn a_time_is_read_in_every_unit_and_in_no_other() {
    for (text, millis) in [
        ("30", 30_000),
        ("30s", 30_000),
        ("30 s", 30_000),
        (" 30sec ", 30_000),
        ("0.5", 500),
        (".5s", 500),
        ("5.", 5_000),
        ("1500ms", 1_500),
        ("2m", 120_000),
        ("2min", 120_000),
        ("1.5h", 5_400_000),
        ("24h", 86_400_000),
    ] {
        assert_eq!(parse_duration(text, 1.0), Some(Duration::from_millis(millis)), "{text:?}");
    }
    // Only a number without a unit gets the unit of its field.
    assert_eq!(parse_duration("30", 0.001), Some(Duration::from_millis(30)));
    assert_eq!(parse_duration("30s", 0.001), Some(Duration::from_secs(30)));
    for text in [
        "",
        " ",
        "s",
        "ms",
        ".",
        "-1",
        "+1",
        "1e3",
        "1_000",
        "1,5",
        "1.2.3",
        "0x10",
        "1d",
        "1 week",
        "30S",
        "30 seconds",
        "1h30m",
        "inf",
        "NaN",
        "\u{663}\u{660}s",
        "30\u{a0}",
        "30s30",
        "9".repeat(400).as_str(),
    ] {
        let read = parse_duration(text, 1.0).filter(|read| *read <= MAX_DURATION);
        // A no-break space is trimmed like any other space.
        assert_eq!(read, (text == "30\u{a0}").then_some(Duration::from_secs(30)), "{text:?}");
    }
}

#[test]
fn a_name_is_the_same_in_every_spelling_that_programs_have() {
    for name in
        ["startup_timeout", "startupTimeout", "startup-timeout", "StartupTimeout", "STARTUP_TIMEOUT", "startup_Timeout"]
    {
        assert_eq!(canonical(name), "startup_timeout", "{name}");
    }
    for (name, expected) in
        [("", ""), ("a", "a"), ("URL", "url"), ("oauth2Url", "oauth2_url"), ("\u{c4}b", "\u{c4}b"), ("-a-", "_a_")]
    {
        assert_eq!(canonical(name), expected);
    }
}

proptest! {
    #[test]
    fn the_comparable_form_of_a_name_is_stable(name in ".{0,20}") {
        let form = canonical(&name);
        prop_assert_eq!(canonical(&form), form);
    }

    #[test]
    fn a_time_in_milliseconds_is_a_thousandth_of_the_same_number_in_seconds(number in 1_u32..86_400_000) {
        let millis = Duration::from_millis(number.into());
        let spellings = [format!("{number}ms"), format!("{number} ms"), format!("{}.{:03}s", number / 1000, number % 1000)];
        for text in spellings {
            let read = parse_duration(&text, 1.0).unwrap();
            // Fractions of seconds are floating-point numbers, and not exact.
            prop_assert!(read.abs_diff(millis) < Duration::from_micros(1), "{} {:?}", text, read);
        }
        let of_field = parse_duration(&number.to_string(), 0.001).unwrap();
        prop_assert!(of_field.abs_diff(millis) < Duration::from_micros(1));
    }
}
