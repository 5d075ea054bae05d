#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| toolrack_agent::model::fuzzing::answers(data));
