//! Bounds of a script, and what it cannot reach.

use std::time::{Duration, Instant};

use toolrack_code::Bounds;
use toolrack_host::Host;

use crate::shelf::{Shelf, default_host, failure, host_with_shelf, printed, script};

async fn bounded(change: impl FnOnce(&mut Bounds)) -> Host {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    host_with_shelf(Host::builder(), Shelf::default(), bounds).await.0
}

#[tokio::test]
async fn a_script_that_computes_for_too_long_is_ended() {
    let host = bounded(|bounds| bounds.compute = Duration::from_millis(50)).await;
    for endless in [
        "print('on'); for (;;);",
        "print('on'); await tools['my-shelf'].read(); for (;;) try { for (;;); } catch {}",
        "print('on'); const again = async () => { await null; return again() }; await again()",
        "print('on'); /(a+)+$/.test('a'.repeat(60) + 'b')",
        "print('on'); const wait = () => Promise.resolve().then(wait); wait()",
        "print('on'); throw { toString() { for (;;); } }",
        "print('on'); throw new Proxy(new Error('x'), { get() { for (;;); } })",
    ] {
        assert_eq!(
            failure(&host, endless).await,
            "on\nthe script was ended: it computed for more than 0.05 s",
            "{endless}"
        );
    }
}

/// A script with a step that never ends and needs hardly any memory.
const ENDLESS_STEP: &str =
    "print('on'); let all = []; for (let n = 0; n < 60; n++) all = [all, all]; all.flat(Infinity)";

#[test]
fn a_step_that_never_ends_delays_neither_the_answer_nor_the_end_of_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let began = Instant::now();
    runtime.block_on(async {
        let host = bounded(|bounds| bounds.compute = Duration::from_millis(200)).await;
        let message = failure(&host, ENDLESS_STEP).await;
        assert_eq!(message, "on\nthe script was ended: it computed for more than 0.2 s");
    });
    drop(runtime);
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn with_four_abandoned_scripts_no_new_script_starts() {
    let host = bounded(|bounds| bounds.compute = Duration::from_millis(200)).await;
    for abandoned in 0..4 {
        assert_eq!(printed(&host, "print(1)").await, "1\n", "{abandoned} abandoned scripts");
        failure(&host, ENDLESS_STEP).await;
    }
    assert_eq!(
        failure(&host, "print(1)").await,
        "no script can run now: 4 scripts that were ended still compute; try again in a moment"
    );
}

#[tokio::test]
async fn a_search_that_would_take_very_long_is_an_error_that_a_script_can_catch() {
    let host = bounded(|bounds| bounds.compute = Duration::from_secs(300)).await;
    let code = "const text = 'a'.repeat(3e7), part = 'a'.repeat(1.2e7) + 'b';
                for (const name of ['indexOf', 'lastIndexOf', 'includes', 'split', 'replace', 'replaceAll'])
                    for (const sought of [part, { toString: () => part }])
                        try { print(text[name](sought, name.startsWith('replace') ? 'c' : undefined)) }
                        catch (error) { if (error.name !== 'RangeError') print(error) }
                print('on')";
    assert_eq!(printed(&host, code).await, "on\n");
}

#[tokio::test]
async fn short_searches_behave_as_in_plain_javascript() {
    let code = "print('abcabc'.indexOf('c'), 'abcabc'.indexOf('c', 3), 'abc'.indexOf(), 'a1'.indexOf(1), 'a'.indexOf('ab'));
                print('abcabc'.lastIndexOf('c'), 'abcabc'.lastIndexOf('c', 4), 'abc'.includes('b'), 'abc'.includes('b', 2));
                print('a,b,c'.split(','), 'a,b,c'.split(',', 2), 'a,b'.split(), 'ab'.split(''), 'a1b2'.split(/\\d/));
                print('aXbX'.replace('X', '[$&]'), 'aXbX'.replaceAll('X', (found, at) => found + at), 'ab'.replace(/b/, 'c'));
                print('ab'.replace({ [Symbol.replace]: () => 'mine' }), String.prototype.indexOf.call(121, '2'));
                for (const wrong of [() => 'a'.includes(/a/), () => 'a'.replaceAll(/a/, ''), () => String.prototype.split.call(null)])
                    try { print(wrong()) } catch (error) { print(error.name) }
                print('x'.indexOf.name, Object.keys(String.prototype).length);
                const text = 'x'.repeat(4e6) + 'y'; print(text.indexOf(text.slice(1)), text.includes(text))";
    assert_eq!(
        printed(&default_host().await, code).await,
        r#"2 5 -1 1 -1
5 2 true false
["a","b","c"] ["a","b"] ["a,b"] ["a","b"] ["a","b",""]
a[X]bX aX1bX3 ac
mine 1
TypeError
TypeError
TypeError
indexOf 0
1 true
"#
    );
}

#[tokio::test]
async fn a_script_that_wants_too_much_memory_is_ended_and_the_next_one_runs() {
    let host = bounded(|bounds| bounds.memory = 8 * 1024 * 1024).await;
    for bomb in [
        "const all = []; for (;;) all.push(new Array(1000).fill(7))",
        "let text = 'x'; for (;;) text += [text, text].join('y')",
        "new Uint8Array(1e9)",
        "const all = new Map(); for (let n = 0; ; n++) all.set(n, { n })",
        "const all = []; for (;;) all.push(Promise.resolve().then(() => all))",
        "const all = []; for (;;) { all.push('x'.repeat(1e5) + all.length); await null }",
        "print([...'x'.repeat(3e6)].length)",
    ] {
        let message = failure(&host, bomb).await;
        let expected = ["it needs more than 8 MiB of memory", "string too long", "invalid array"];
        assert!(expected.iter().any(|expected| message.contains(expected)), "{bomb}: {message}");
    }
    assert_eq!(printed(&host, "print(1)").await, "1\n");
}

#[tokio::test]
async fn endless_recursion_is_an_error_that_a_script_can_catch() {
    let code = "const deeper = () => deeper() + 1; try { deeper() } catch (error) { print(error.name) }";
    assert_eq!(printed(&default_host().await, code).await, "RangeError\n");
}

#[tokio::test]
async fn the_output_of_a_script_is_cut() {
    let host = bounded(|bounds| bounds.output = 10).await;
    assert_eq!(
        printed(&host, "print('1234'); print('äöü'); print('more')").await,
        "1234\näö\n[cut: a script prints at most 10 bytes]\n"
    );
    assert_eq!(printed(&host, "print('123456789')").await, "123456789\n");
}

#[tokio::test]
async fn a_script_cannot_make_more_calls_than_its_bound() {
    let host = bounded(|bounds| bounds.calls = 3.try_into().unwrap()).await;
    let code = "let made = 0; try { for (;;) { await tools['my-shelf'].read(); made++ } } catch (error) { print(made, error.message) }";
    assert_eq!(printed(&host, code).await, "3 a script makes at most 3 calls\n");
    let at_once = "const all = await Promise.allSettled([1, 2, 3, 4, 5].map(() => tools['my-shelf'].read()));
                   print(all.filter(({ status }) => status === 'fulfilled').length)";
    assert_eq!(printed(&host, at_once).await, "3\n");
}

#[tokio::test]
async fn a_script_that_waits_for_a_promise_that_nothing_resolves_is_ended() {
    let message = failure(&default_host().await, "await new Promise(() => {})").await;
    assert_eq!(message, "the script was ended: it waits for a promise that nothing resolves");
}

#[tokio::test]
async fn mistakes_are_reported_with_file_and_line() {
    let host = default_host().await;
    assert_eq!(
        failure(&host, "print(1);\nnothing()").await,
        "1\nReferenceError: nothing is not defined\n  at <eval> (script:2:1)"
    );
    let message = failure(&host, "const = 3").await;
    assert!(message.starts_with("SyntaxError: ") && message.contains("script:1:"), "{message}");
    assert_eq!(failure(&host, "throw 'enough'").await, "enough");
}

#[tokio::test]
async fn a_script_reaches_only_tools() {
    let code =
        "const names = ['require', 'process', 'fetch', 'XMLHttpRequest', 'WebSocket', 'Deno', 'Bun', 'std', 'os',
                    'setTimeout', 'Worker', 'WebAssembly', 'performance', 'navigator', 'load', 'scriptArgs'];
                print(names.filter((name) => name in globalThis).length);
                for (const module of ['fs', 'std', 'os', 'node:fs', './a.js', '/etc/passwd'])
                    try { await import(module); print('reached', module) } catch {}";
    assert_eq!(printed(&default_host().await, code).await, "0\n");
    let list_globals =
        "print(Object.getOwnPropertyNames(globalThis).filter((name) => /^[a-z]/.test(name)).sort().join(' '))";
    assert_eq!(
        printed(&default_host().await, list_globals).await,
        "console decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval get_tool_details globalThis isFinite \
         isNaN parseFloat parseInt print queueMicrotask search_tools tools undefined unescape\n"
    );
}

#[tokio::test]
async fn a_script_sees_nothing_of_an_earlier_script() {
    let host = default_host().await;
    printed(&host, "globalThis.left = 1; Object.prototype.left = 1; tools.left = 1; print(1)").await;
    assert_eq!(printed(&host, "print('left' in globalThis)").await, "false\n");
}

#[test]
fn an_abandoned_script_is_ended_with_its_calls() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut bounds = Bounds::default();
    bounds.compute = Duration::from_secs(600);
    let began = Instant::now();
    runtime.block_on(async {
        let shelf = Shelf { together: 2, ..Shelf::default() };
        let (host, _) = host_with_shelf(Host::builder(), shelf.clone(), bounds).await;
        let mut waiting = shelf.waiting.subscribe();
        let code = "const one = tools['my-shelf'].wait(); await tools['my-shelf'].read(); for (;;);";
        tokio::select! {
            _ = host.call(script(code)) => panic!("it never ends"),
            _ = waiting.wait_for(|(now, _)| *now == 1) => {}
        }
        let mut cancelled = shelf.cancelled.subscribe();
        cancelled.wait_for(|cancelled| *cancelled >= 1).await.unwrap();
    });
    // The runtime does not wait for the thread of the script, which ends at its next step.
    drop(runtime);
    assert!(began.elapsed() < Duration::from_secs(60));
}
