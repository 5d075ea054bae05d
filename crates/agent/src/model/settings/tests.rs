use super::*;

#[test]
fn a_key_is_taken_without_the_line_end_of_the_file_that_it_was_in_and_is_never_printed() {
    for written in ["sk-1", " sk-1\n", "\tsk-1\r\n"] {
        assert_eq!(Key::new(written).reveal(), "sk-1");
        assert_eq!(Key::new(written), Key::new("sk-1"));
    }
    assert_eq!(format!("{:?}", Key::new("sk-1")), "Key(…)");
    let mut settings = ModelSettings::new("p", "m", Wire::Gemini, "http://user:sk-1@127.0.0.1/?key=sk-1");
    settings.key = Some(Key::new("sk-1"));
    settings.headers.push(("x-key".into(), Key::new("sk-1")));
    settings.extra_body.insert("token".into(), "sk-1".into());
    assert_eq!(format!("{settings:?}"), "ModelSettings { name: \"p/m\", wire: Gemini, .. }");
}

#[test]
fn a_name_is_one_short_safe_line() {
    let name = |model: &str| ModelSettings::new("p", model, Wire::Gemini, "").name();
    assert_eq!(name("a/b:c"), "p/a/b:c");
    assert_eq!(name("x\u{1b}[31m\ny"), "p/x\\u{1b}[31m\\ny");
    assert!(name(&"x".repeat(10_000)).len() < 300);
}

#[test]
fn each_kind_of_input_is_charged_once_at_its_own_price() {
    let price = Price { input: 4.0, output: 16.0, cached_read: 1.0, cache_write: 5.0 };
    let usage =
        |input, cached_read, cache_write, output| Usage { input, output, cached_read, cache_write, reasoning: 0 };
    for (usage, millionths) in [
        (usage(0, 0, 0, 0), 0.0),
        (usage(10, 0, 0, 0), 40.0),
        (usage(0, 0, 0, 10), 160.0),
        (usage(10, 4, 0, 0), 6.0 * 4.0 + 4.0),
        (usage(10, 0, 4, 0), 6.0 * 4.0 + 4.0 * 5.0),
        (usage(10, 4, 6, 1), 4.0 + 6.0 * 5.0 + 16.0),
        // A provider that does not count cached tokens as input: there are more of them than of input.
        (usage(2, 10, 0, 0), 10.0),
        (usage(2, 1, u64::MAX, 0), 1.0 + 5.0 * 18_446_744_073_709_551_615.0),
        (Usage { reasoning: 900, ..usage(0, 0, 0, 10) }, 160.0),
    ] {
        let cost = price.cost_of(&usage) * 1_000_000.0;
        assert!((cost - millionths).abs() <= millionths * 1e-9, "{usage:?}: {cost}");
    }
    assert_eq!(Price::flat(1.0, 2.0), Price { input: 1.0, output: 2.0, cached_read: 1.0, cache_write: 1.0 });
}

#[test]
fn wires_that_are_silent_while_a_model_thinks_get_the_time_for_it() {
    for wire in Wire::ALL {
        let bounds = Bounds::for_wire(wire);
        let seconds = (bounds.first_token.as_secs(), bounds.silence.as_secs());
        let expected = match wire {
            Wire::Anthropic | Wire::OpenAiChat => (120, 30),
            Wire::OpenAiResponses | Wire::Gemini => (300, 300),
        };
        assert_eq!(seconds, expected, "{wire}");
        assert_eq!(ModelSettings::new("p", "m", wire, "").bounds, bounds);
        assert!(
            bounds.connect < bounds.silence
                && bounds.silence <= bounds.first_token
                && bounds.first_token < bounds.total
        );
    }
}
