//! Runs tasks on one thread, in an order drawn from the seed.
//!
//! 1. A *step* is one poll of one task. Of the tasks that are ready, chance picks the next: every interleaving that some
//!    scheduler could make can come up.
//! 2. A task can wait for a number of steps to pass (`Pace`). When nobody is ready, the steps until the next waiter are skipped.
//! 3. All this happens inside a tokio runtime whose time stands still, because the front end sets tokio's timers. Only when nobody
//!    is ready and nobody waits for steps does tokio's time move, to the next timer. So a time-out strikes where a request really
//!    is stuck, and nowhere else.
//! 4. A task can be dropped where it stands, from outside: that is what a crash does to it.
//! 5. What a task begins through a `Spawner` is of its family. Whoever began the family is told when the last of it is over.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use engine::BoxFuture;

use super::chance::Chance;

pub type TaskId = u64;

#[derive(Clone)]
pub struct Executor(Rc<Inner>);

struct Inner {
    tasks: RefCell<BTreeMap<TaskId, Task>>,
    ready: Arc<Mutex<Ready>>,
    chance: RefCell<Chance>,
    tasks_made: Cell<TaskId>,
    /// What the task at hand has begun.
    begun: Spawner,
    pace: Pace,
    steps_max: u64,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Arc<TaskWaker>,
    family: Option<Rc<Family>>,
}

/// Tasks of one origin. The first one's id is the family's.
struct Family {
    id: TaskId,
    over: Cell<Option<Box<dyn FnOnce()>>>,
}

impl Drop for Family {
    fn drop(&mut self) {
        if let Some(over) = self.over.take() {
            over();
        }
    }
}

/// For code that runs under any executor, and begins tasks while it runs.
#[derive(Clone, Default)]
pub struct Spawner(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl Spawner {
    pub fn spawn(&self, task: BoxFuture<'static, ()>) {
        lock(&self.0).push(task);
    }
}

#[derive(Default)]
struct Ready {
    ids: Vec<TaskId>,
    /// Set while everything waits for tokio's timers.
    runtime: Option<Waker>,
}

struct TaskWaker {
    id: TaskId,
    is_ready: AtomicBool,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            let mut ready = lock(&self.ready);
            ready.ids.push(self.id);
            if let Some(runtime) = ready.runtime.take() {
                runtime.wake();
            }
        }
    }
}

/// The run did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stuck {
    /// Nobody is ready, nobody waits for steps, and no timer helped for an hour.
    Deadlock,
    /// More steps than the run can need: somebody goes round in circles.
    Livelock,
}

impl Executor {
    pub fn new(chance: Chance, steps_max: u64) -> Executor {
        Executor(Rc::new(Inner {
            tasks: RefCell::default(),
            ready: Arc::default(),
            chance: RefCell::new(chance),
            tasks_made: Cell::new(0),
            begun: Spawner::default(),
            pace: Pace::default(),
            steps_max,
        }))
    }

    pub fn pace(&self) -> Pace {
        self.0.pace.clone()
    }

    pub fn spawner(&self) -> Spawner {
        self.0.begun.clone()
    }

    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        let id = self.next_id();
        self.add(id, Box::pin(future), None);
        id
    }

    /// `over` is called when the task and all that it began have ended, or were dropped.
    pub fn spawn_family(&self, future: impl Future<Output = ()> + 'static, over: impl FnOnce() + 'static) -> TaskId {
        let id = self.next_id();
        let family = Rc::new(Family { id, over: Cell::new(Some(Box::new(over))) });
        self.add(id, Box::pin(future), Some(family));
        id
    }

    fn next_id(&self) -> TaskId {
        self.0.tasks_made.set(self.0.tasks_made.get() + 1);
        self.0.tasks_made.get()
    }

    fn add(&self, id: TaskId, future: Pin<Box<dyn Future<Output = ()>>>, family: Option<Rc<Family>>) {
        let waker = Arc::new(TaskWaker { id, is_ready: AtomicBool::new(false), ready: self.0.ready.clone() });
        self.0.tasks.borrow_mut().insert(id, Task { future, waker: waker.clone(), family });
        waker.wake();
    }

    /// Drops the task where it stands. One that has ended already is no matter.
    pub fn drop_task(&self, id: TaskId) {
        let task = self.0.tasks.borrow_mut().remove(&id);
        drop(task); // after the borrow: what it drops may wake others
    }

    /// The same for all of a family.
    pub fn drop_family(&self, family: TaskId) {
        let is_meant = |task: &Task| task.family.as_ref().is_some_and(|own| own.id == family);
        let dropped: Vec<Task> = {
            let mut tasks = self.0.tasks.borrow_mut();
            let ids: Vec<TaskId> = tasks.iter().filter(|(_, task)| is_meant(task)).map(|(id, _)| *id).collect();
            ids.iter().filter_map(|id| tasks.remove(id)).collect()
        };
        drop(dropped); // after the borrow, as above
    }

    /// Runs `main` and whatever it spawns until `main` ends; `before_step` is called with the number of each step. What is left
    /// then is dropped.
    pub fn run(
        &self,
        main: impl Future<Output = ()> + 'static,
        mut before_step: impl FnMut(u64),
    ) -> Result<u64, Stuck> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O needs nothing that could be lacking");
        let main = self.spawn(main);
        let running = std::future::poll_fn(|context| self.poll(context, main, &mut before_step));
        let outcome = runtime.block_on(async {
            tokio::select! {
                biased;
                outcome = tokio::task::unconstrained(running) => outcome,
                () = tokio::time::sleep(Duration::from_secs(3600)) => Err(Stuck::Deadlock),
            }
        });
        let _context = runtime.enter(); // timers are taken back in it
        let left = std::mem::take(&mut *self.0.tasks.borrow_mut());
        drop(left);
        outcome
    }

    fn poll(
        &self,
        context: &mut Context<'_>,
        main: TaskId,
        before_step: &mut impl FnMut(u64),
    ) -> Poll<Result<u64, Stuck>> {
        loop {
            let step = self.0.pace.advance();
            if step > self.0.steps_max {
                return Poll::Ready(Err(Stuck::Livelock));
            }
            before_step(step);
            let Some(id) = self.next_ready() else {
                if self.0.pace.skip_to_next() {
                    continue;
                }
                lock(&self.0.ready).runtime = Some(context.waker().clone());
                return Poll::Pending;
            };
            let Some(mut task) = self.0.tasks.borrow_mut().remove(&id) else { continue };
            task.waker.is_ready.store(false, Ordering::Relaxed);
            let waker = Waker::from(task.waker.clone());
            let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
            for begun in std::mem::take(&mut *lock(&self.0.begun.0)) {
                self.add(self.next_id(), begun, task.family.clone());
            }
            match polled {
                Poll::Pending => {
                    self.0.tasks.borrow_mut().insert(id, task);
                }
                Poll::Ready(()) if id == main => return Poll::Ready(Ok(step)),
                Poll::Ready(()) => {}
            }
        }
    }

    fn next_ready(&self) -> Option<TaskId> {
        let mut ready = lock(&self.0.ready);
        if ready.ids.is_empty() {
            return None;
        }
        let index = self.0.chance.borrow_mut().index(ready.ids.len());
        Some(ready.ids.swap_remove(index))
    }
}

/// Counts steps, and wakes those who wait for some to pass.
#[derive(Clone, Default)]
pub struct Pace(Arc<Mutex<Steps>>);

#[derive(Default)]
struct Steps {
    now: u64,
    waiters: BTreeMap<(u64, u64), Waker>,
    waiters_made: u64,
}

impl Pace {
    pub fn now(&self) -> u64 {
        lock(&self.0).now
    }

    /// Waits until about this many steps have passed.
    pub fn steps(&self, steps: u64) -> Waiting {
        let mut state = lock(&self.0);
        state.waiters_made += 1;
        Waiting { pace: self.clone(), key: (state.now + steps, state.waiters_made) }
    }

    fn advance(&self) -> u64 {
        let mut state = lock(&self.0);
        state.now += 1;
        let now = state.now;
        while let Some(first) = state.waiters.first_entry().filter(|first| first.key().0 <= now) {
            first.remove().wake();
        }
        now
    }

    fn skip_to_next(&self) -> bool {
        let mut state = lock(&self.0);
        let next = state.waiters.first_key_value().map(|(key, _)| key.0);
        if let Some(next) = next {
            state.now = next.max(state.now) - 1;
        }
        next.is_some()
    }
}

pub struct Waiting {
    pace: Pace,
    key: (u64, u64),
}

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.pace.0);
        if state.now >= self.key.0 {
            state.waiters.remove(&self.key);
            return Poll::Ready(());
        }
        state.waiters.insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.pace.0).waiters.remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tasks that each note their number five times, with pauses.
    fn order(seed: u64) -> Vec<u64> {
        let executor = Executor::new(Chance::from_seed(seed), 10_000);
        let notes = Rc::new(RefCell::new(Vec::new()));
        let (spawner, shared, pace) = (executor.clone(), notes.clone(), executor.pace());
        let main = async move {
            for number in 0..3 {
                let (shared, pace) = (shared.clone(), pace.clone());
                spawner.spawn(async move {
                    for pause in 0..5 {
                        shared.borrow_mut().push(number);
                        pace.steps(pause).await;
                    }
                });
            }
            tokio::time::sleep(Duration::from_secs(600)).await; // longer than all of them: they never wait for time
        };
        assert!(executor.run(main, |_| {}).is_ok());
        notes.take()
    }

    #[test]
    fn a_seed_is_an_order() {
        assert_eq!(order(1), order(1));
        assert_eq!(order(1).len(), 15);
        assert!((2..20).any(|seed| order(seed) != order(1)));
    }

    #[test]
    fn tells_who_is_stuck() {
        let executor = Executor::new(Chance::from_seed(1), 1000);
        assert_eq!(executor.run(std::future::pending(), |_| {}), Err(Stuck::Deadlock));
        let executor = Executor::new(Chance::from_seed(1), 1000);
        let pace = executor.pace();
        let circles = async move {
            loop {
                pace.steps(1).await;
            }
        };
        assert_eq!(executor.run(circles, |_| {}), Err(Stuck::Livelock));
    }

    #[test]
    fn a_family_is_over_with_its_last_task() {
        for crashes in [false, true] {
            let executor = Executor::new(Chance::from_seed(1), 1000);
            let (own, pace, over) = (executor.clone(), executor.pace(), Rc::new(Cell::new(false)));
            let (is_over, spawner, slow) = (over.clone(), executor.spawner(), pace.clone());
            let main = async move {
                let began = async move { spawner.spawn(Box::pin(async move { slow.steps(100).await })) };
                let family = own.spawn_family(began, move || is_over.set(true));
                pace.steps(50).await;
                assert!(!over.get(), "what it began goes on");
                if crashes {
                    own.drop_family(family)
                } else {
                    pace.steps(100).await
                }
                assert!(over.get());
            };
            assert!(executor.run(main, |_| {}).is_ok());
        }
    }

    #[test]
    fn a_dropped_task_is_gone() {
        let executor = Executor::new(Chance::from_seed(1), 1000);
        let (spawner, pace) = (executor.clone(), executor.pace());
        let main = async move {
            let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
            let id = spawner.spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
            pace.steps(10).await;
            spawner.drop_task(id);
            assert!(receiver.await.is_err());
        };
        assert!(executor.run(main, |_| {}).is_ok());
    }
}
