//! A panic while a request is answered costs that request a 500 and nothing else, so a simulation would take it for one more fault.
//! It is counted here instead.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// How many panics this thread has seen since the first call.
pub fn count() -> u64 {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with(|panics| panics.set(panics.get() + 1));
            before(info);
        }));
    });
    PANICS.with(Cell::get)
}
