//! What ends a script, and what it cannot reach.

use std::time::{Duration, Instant};

use toolrack_code::Bounds;
use toolrack_host::Host;

use crate::shelf::{Shelf, failure, printed, script, usual, world};

async fn bounded(change: impl FnOnce(&mut Bounds)) -> Host {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    world(Host::builder(), Shelf::default(), bounds).await.0
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

#[tokio::test]
async fn a_script_that_wants_too_much_memory_is_ended_and_nothing_else_is() {
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
        let said = failure(&host, bomb).await;
        let expected = ["it needs more than 8 MiB of memory", "string too long", "invalid array"];
        assert!(expected.iter().any(|expected| said.contains(expected)), "{bomb}: {said}");
    }
    assert_eq!(printed(&host, "print(1)").await, "1\n");
}

#[tokio::test]
async fn endless_recursion_is_an_error_that_can_be_caught() {
    let code = "const deeper = () => deeper() + 1; try { deeper() } catch (error) { print(error.name) }";
    assert_eq!(printed(&usual().await, code).await, "RangeError\n");
}

#[tokio::test]
async fn what_is_printed_is_cut() {
    let host = bounded(|bounds| bounds.output = 10).await;
    assert_eq!(
        printed(&host, "print('1234'); print('äöü'); print('more')").await,
        "1234\näö\n[cut: a script prints at most 10 bytes]\n"
    );
    assert_eq!(printed(&host, "print('123456789')").await, "123456789\n");
}

#[tokio::test]
async fn a_script_makes_only_so_many_calls() {
    let host = bounded(|bounds| bounds.calls = 3.try_into().unwrap()).await;
    let code = "let made = 0; try { for (;;) { await tools['my-shelf'].read(); made++ } } catch (error) { print(made, error.message) }";
    assert_eq!(printed(&host, code).await, "3 a script makes at most 3 calls\n");
    let at_once = "const all = await Promise.allSettled([1, 2, 3, 4, 5].map(() => tools['my-shelf'].read()));
                   print(all.filter(({ status }) => status === 'fulfilled').length)";
    assert_eq!(printed(&host, at_once).await, "3\n");
}

#[tokio::test]
async fn a_script_that_waits_for_nothing_is_ended() {
    let said = failure(&usual().await, "await new Promise(() => {})").await;
    assert_eq!(said, "the script was ended: it waits for something that will never happen");
}

#[tokio::test]
async fn mistakes_are_told_with_their_place() {
    let host = usual().await;
    assert_eq!(
        failure(&host, "print(1);\nnothing()").await,
        "1\nReferenceError: nothing is not defined\n  at <eval> (script:2:1)"
    );
    let said = failure(&host, "const = 3").await;
    assert!(said.starts_with("SyntaxError: ") && said.contains("script:1:"), "{said}");
    assert_eq!(failure(&host, "throw 'enough'").await, "enough");
}

#[tokio::test]
async fn there_is_nothing_to_reach_but_tools() {
    let code =
        "const names = ['require', 'process', 'fetch', 'XMLHttpRequest', 'WebSocket', 'Deno', 'Bun', 'std', 'os',
                    'setTimeout', 'Worker', 'WebAssembly', 'performance', 'navigator', 'load', 'scriptArgs'];
                print(names.filter((name) => name in globalThis).length);
                for (const module of ['fs', 'std', 'os', 'node:fs', './a.js', '/etc/passwd'])
                    try { await import(module); print('reached', module) } catch {}";
    assert_eq!(printed(&usual().await, code).await, "0\n");
    let has = "print(Object.getOwnPropertyNames(globalThis).filter((name) => /^[a-z]/.test(name)).sort().join(' '))";
    assert_eq!(
        printed(&usual().await, has).await,
        "console decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval get_tool_details globalThis isFinite \
         isNaN parseFloat parseInt print queueMicrotask search_tools tools undefined unescape\n"
    );
}

#[tokio::test]
async fn nothing_is_left_of_one_script_for_the_next() {
    let host = usual().await;
    printed(&host, "globalThis.left = 1; Object.prototype.left = 1; tools.left = 1; print(1)").await;
    assert_eq!(printed(&host, "print('left' in globalThis)").await, "false\n");
}

#[test]
fn who_is_no_longer_waited_for_is_ended_with_its_calls() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut bounds = Bounds::default();
    bounds.compute = Duration::from_secs(600);
    let began = Instant::now();
    runtime.block_on(async {
        let shelf = Shelf { together: 2, ..Shelf::default() };
        let (host, _) = world(Host::builder(), shelf.clone(), bounds).await;
        let mut waiting = shelf.waiting.subscribe();
        let code = "const one = tools['my-shelf'].wait(); await tools['my-shelf'].read(); for (;;);";
        tokio::select! {
            _ = host.call(script(code)) => panic!("it never ends"),
            _ = waiting.wait_for(|(now, _)| *now == 1) => {}
        }
        let mut cancelled = shelf.cancelled.subscribe();
        cancelled.wait_for(|cancelled| *cancelled >= 1).await.unwrap();
    });
    // Waits for the thread of the script.
    drop(runtime);
    assert!(began.elapsed() < Duration::from_secs(60));
}
