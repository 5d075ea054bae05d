#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| toolrack_host::fuzzing::findings(data));
