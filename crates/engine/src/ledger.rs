//! The ledger: what a tree and every session in it have spent and set aside, asked before every model call.
//!
//! Each session has an account that counts everything below it too, so that an agent's own budget bounds its whole
//! subtree. A step is admitted by every account from its session up to the root, or not at all.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use posse_session::{Admission, Limit, Limits, Reserved, SessionId, Standing, Summary, Usage, Wish};

/// No tree is deeper; a parent that leads back to itself ends the walk.
const DEPTH_MAX: usize = 64;

pub(crate) struct Ledger {
    root: SessionId,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    accounts: HashMap<SessionId, Account>,
    /// Tasks of the tree so far.
    tasks: u64,
}

#[derive(Default)]
struct Account {
    parent: Option<SessionId>,
    standing: Standing,
}

/// What came of a wish to step.
pub(crate) struct Verdict {
    pub(crate) admission: Admission,
    /// Whose limit it was that lowered or refused it, and how it stands.
    pub(crate) account: SessionId,
    pub(crate) standing: Standing,
}

impl Ledger {
    /// `so_far` are the tree's sessions as their logs have them.
    pub(crate) fn new(root: SessionId, limits: Limits, so_far: &[Summary]) -> Self {
        let mut books = Books::default();
        for summary in so_far {
            books.accounts.insert(summary.session.clone(), Account { parent: summary.parent.clone(), ..Account::default() });
        }
        books.accounts.entry(root.clone()).or_default().standing.limits = limits;
        for summary in so_far {
            books.tasks += u64::from(summary.is_task());
            books.each(&summary.session, |standing| {
                standing.spent += summary.usage;
                standing.steps += summary.steps;
            });
        }
        Self { root, books: Mutex::new(books) }
    }

    /// A session is run: its steps count for those above it, and its own limits hold.
    pub(crate) fn open(&self, session: &SessionId, parent: Option<&SessionId>, own: Limits) {
        let mut books = self.books();
        let account = books.accounts.entry(session.clone()).or_default();
        account.parent = parent.cloned();
        if *session != self.root {
            account.standing.limits = own;
        }
    }

    /// One task more, if the tree may have it; `Err` is how many it may have.
    pub(crate) fn admit_task(&self) -> Result<(), u64> {
        let mut books = self.books();
        let limit = books.accounts.get(&self.root).and_then(|root| root.standing.limits.tasks).unwrap_or(u64::MAX);
        if limit <= books.tasks {
            return Err(limit);
        }
        books.tasks += 1;
        Ok(())
    }

    /// Whether there is anything left to spend for a task below this session; `Err` is whose limit says no.
    pub(crate) fn has_left(&self, session: &SessionId) -> Result<(), Box<Verdict>> {
        let verdict = self.books().admit(session, Wish { input_estimate: 0, output_max: 1, prices: Default::default() });
        if matches!(verdict.admission, Admission::Refused(Limit::Cost | Limit::Tokens)) { Err(Box::new(verdict)) } else { Ok(()) }
    }

    /// Admits a step and sets its cost aside, in one breath.
    pub(crate) fn reserve(&self, session: &SessionId, wish: Wish) -> Verdict {
        let mut books = self.books();
        let verdict = books.admit(session, wish);
        if let Admission::Go { reserved, .. } | Admission::Closing { reserved, .. } = verdict.admission {
            books.each(session, |standing| {
                standing.reserved.tokens += reserved.tokens;
                standing.reserved.cost_usd += reserved.cost_usd;
                standing.in_flight += 1;
            });
        }
        verdict
    }

    /// A step is over: what was set aside is free again, what was used is spent.
    pub(crate) fn settle(&self, session: &SessionId, reserved: Reserved, used: Usage, replied: bool) {
        self.books().each(session, |standing| {
            standing.reserved.tokens = standing.reserved.tokens.saturating_sub(reserved.tokens);
            standing.reserved.cost_usd = (standing.reserved.cost_usd - reserved.cost_usd).max(0.0);
            standing.in_flight = standing.in_flight.saturating_sub(1);
            standing.spent += used;
            standing.steps += u64::from(replied);
        });
    }

    /// What was used up by a step that nobody has admitted here: its owner is gone.
    pub(crate) fn spend(&self, session: &SessionId, used: Usage) {
        self.books().each(session, |standing| standing.spent += used);
    }

    /// Whether a budget in money bounds this session.
    pub(crate) fn counts_money(&self, session: &SessionId) -> bool {
        let books = self.books();
        let has_budget = |id: &SessionId| books.accounts.get(id).is_some_and(|account| account.standing.limits.cost_usd.is_some());
        books.path(session).iter().any(has_budget)
    }

    /// Whether an account is the whole tree's.
    pub(crate) fn is_trees(&self, account: &SessionId) -> bool {
        *account == self.root
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    /// A session and those above it.
    fn path(&self, session: &SessionId) -> Vec<SessionId> {
        let above = |below: &SessionId| self.accounts.get(below).and_then(|account| account.parent.clone());
        std::iter::successors(Some(session.clone()), above).take(DEPTH_MAX).collect()
    }

    fn each(&mut self, session: &SessionId, change: impl Fn(&mut Standing)) {
        for id in self.path(session) {
            if let Some(account) = self.accounts.get_mut(&id) {
                change(&mut account.standing);
            }
        }
    }

    /// The strictest of all accounts: a refusal, then a wait, then the last step, then the least output.
    fn admit(&self, session: &SessionId, wish: Wish) -> Verdict {
        let mut wish = wish;
        let mut strictest: Option<Verdict> = None;
        for id in self.path(session) {
            let standing = self.accounts.get(&id).map(|account| account.standing).unwrap_or_default();
            let admission = standing.admit(wish);
            if let Admission::Go { output_max, .. } | Admission::Closing { output_max, .. } = admission {
                wish.output_max = output_max;
            }
            if strictest.as_ref().is_none_or(|known| strictness(&known.admission) <= strictness(&admission)) {
                strictest = Some(Verdict { admission, account: id, standing });
            }
        }
        let none = || Verdict { admission: Standing::default().admit(wish), account: session.clone(), standing: Standing::default() };
        let mut verdict = strictest.unwrap_or_else(none);
        // What is set aside everywhere is what the tightest leaves.
        let least = |reserved: &mut Reserved, output_max: &mut u64| {
            if let Admission::Go { reserved: fits, output_max: most } = Standing::default().admit(wish) {
                (*reserved, *output_max) = (fits, most);
            }
        };
        if let Admission::Go { reserved, output_max } | Admission::Closing { reserved, output_max } = &mut verdict.admission {
            least(reserved, output_max);
        }
        verdict
    }
}

fn strictness(admission: &Admission) -> u8 {
    match admission {
        Admission::Go { .. } => 0,
        Admission::Closing { .. } => 1,
        Admission::Later => 2,
        Admission::Refused(_) => 3,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posse_session::Prices;

    use super::*;

    fn id(name: &str) -> SessionId {
        SessionId::new(name)
    }

    fn wish(input: u64, output: u64) -> Wish {
        Wish { input_estimate: input, output_max: output, prices: Prices::default() }
    }

    fn tokens(limit: u64) -> Limits {
        Limits { tokens: Some(limit), ..Limits::default() }
    }

    /// A tree of root, child and grandchild, where the child may spend 100 tokens.
    fn ledger(root: Limits) -> Ledger {
        let ledger = Ledger::new(id("root"), root, &[]);
        ledger.open(&id("root"), None, Limits::default());
        ledger.open(&id("child"), Some(&id("root")), tokens(100));
        ledger.open(&id("grandchild"), Some(&id("child")), Limits::default());
        ledger.open(&id("other"), Some(&id("root")), Limits::default());
        ledger
    }

    fn used(tokens: u64) -> Usage {
        Usage { output: tokens, ..Usage::default() }
    }

    #[test]
    fn an_agents_budget_bounds_everything_below_it_and_nobody_else() {
        let ledger = ledger(Limits::default());
        let Admission::Go { reserved, output_max } = ledger.reserve(&id("grandchild"), wish(30, 1_000)).admission else {
            panic!("refused")
        };
        assert_eq!((reserved.tokens, output_max), (100, 70), "the output is lowered to what the child may spend");
        ledger.settle(&id("grandchild"), reserved, used(90), true);
        let refused = ledger.reserve(&id("child"), wish(30, 1_000));
        assert_eq!(refused.admission, Admission::Refused(Limit::Tokens));
        assert_eq!((refused.account.as_str(), refused.standing.spent.tokens()), ("child", 90));
        assert!(ledger.has_left(&id("child")).is_ok(), "ten are left");
        assert!(matches!(ledger.reserve(&id("other"), wish(30, 1_000)).admission, Admission::Go { output_max: 1_000, .. }));
    }

    #[test]
    fn a_budget_in_money_bounds_whoever_is_below_it() {
        let money = Limits { cost_usd: Some(1.0), ..Limits::default() };
        let unbound = ledger(Limits::default());
        unbound.open(&id("child"), Some(&id("root")), money);
        let bound = |ledger: &Ledger| ["root", "child", "grandchild", "other"].map(|name| ledger.counts_money(&id(name)));
        assert_eq!(bound(&unbound), [false, true, true, false]);
        assert_eq!(bound(&ledger(money)), [true; 4]);
    }

    #[test]
    fn what_a_lost_owner_used_is_spent_and_takes_nothing_else_back() {
        let ledger = ledger(tokens(150));
        let first = ledger.reserve(&id("other"), wish(10, 50));
        assert!(matches!(first.admission, Admission::Go { output_max: 50, .. }), "{:?}", first.admission);
        ledger.spend(&id("grandchild"), used(60));
        let standing = |name: &str| ledger.books().accounts[&id(name)].standing;
        assert_eq!((standing("root").spent.tokens(), standing("root").reserved.tokens, standing("root").in_flight), (60, 60, 1));
        assert_eq!(standing("child").spent.tokens(), 60);
    }

    #[test]
    fn the_trees_limit_holds_for_all_of_them_together() {
        let ledger = ledger(tokens(150));
        let first = ledger.reserve(&id("grandchild"), wish(10, 1_000));
        assert!(matches!(first.admission, Admission::Go { output_max: 90, .. }), "{:?}", first.admission);
        let second = ledger.reserve(&id("other"), wish(10, 1_000));
        assert!(matches!(second.admission, Admission::Go { output_max: 40, .. }), "{:?}", second.admission);
        let third = ledger.reserve(&id("other"), wish(10, 1_000));
        assert_eq!((third.admission, third.account.as_str()), (Admission::Later, "root"));
        assert!(ledger.is_trees(&third.account));
    }

    #[test]
    fn what_was_spent_before_counts_again_for_everybody_above() {
        let mut child = Summary::new(id("child"));
        (child.root, child.parent, child.usage, child.steps) = (id("root"), Some(id("root")), used(80), 3);
        child.kind = Some(posse_session::Kind::Task);
        let root = Summary { usage: used(5), ..Summary::new(id("root")) };
        let ledger = Ledger::new(id("root"), Limits { tasks: Some(2), ..Limits::default() }, &[root, child]);
        ledger.open(&id("child"), Some(&id("root")), tokens(100));
        let left = ledger.reserve(&id("child"), wish(0, 1_000));
        assert!(matches!(left.admission, Admission::Go { output_max: 20, .. }), "{:?}", left.admission);
        assert_eq!(ledger.books().accounts[&id("root")].standing.spent.tokens(), 85);
        assert_eq!((ledger.admit_task(), ledger.admit_task()), (Ok(()), Err(2)));
    }
}
