//! The walk over everything a line can run: lists, pipelines, compounds, functions, and what their words expand.
//!
//! Keeps what later commands depend on: possible working directories, values of variables set in this line, functions.
//! Judges nothing itself; simple commands go to `command`.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use brush_parser::ast;
use posse_session::Verdict;

use super::{
    Surroundings, braces,
    judging::{Judge, Reach, Reason},
    listing, parse, places, shapes, variables,
    word::{Effects, Piece, Word},
};

/// Working directories a line may be in; more is not known.
const DIRECTORIES_MAX: usize = 8;

/// Values one variable may have; more is not known.
const VALUES_MAX: usize = 16;

/// No path is longer.
const VALUE_BYTES_MAX: usize = 4096;

/// The words of a script.
const POSITIONAL: &str = "@ 1 2 3";

/// Variables and functions one line may set; each is copied wherever a subshell begins.
const NAMES_MAX: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Where a command may run; empty when nobody knows.
    pub(super) cwds: Vec<PathBuf>,
    /// Where it runs after a `cd` that worked.
    pub(super) moved: Option<Vec<PathBuf>>,
    values: HashMap<String, Option<Vec<String>>>,
    /// The same with what is known only in part, for `shapes`.
    shapes: HashMap<String, Option<Vec<String>>>,
    /// A `cd` may have led out of the project: nobody knows where a relative name is.
    pub(super) astray: bool,
    pub(super) functions: HashSet<String>,
    pub(super) depth: usize,
    /// Further arguments come from somewhere else: `xargs`.
    pub(super) more_arguments: bool,
    /// Nobody knows how often: a loop, a function, `xargs`.
    pub(super) repeats: bool,
    /// Texts that are the input of what stands around: a here-document after a group.
    pub(super) input: Vec<Word>,
    /// What comes down the pipe are names of files in the project.
    pub(super) input_is_listed: bool,
    /// So are the further arguments; what stands for them in the words, if anything does.
    pub(super) listed: Option<String>,
    /// In the condition of a loop that ends where there is nothing more to read.
    reads_on: bool,
    /// A file has set variables that nobody knows.
    pub(super) sourced: bool,
}

/// What stands around a simple command.
#[derive(Debug, Default, Clone)]
pub(super) struct Around {
    pub(super) assignments: Vec<Assigned>,
    pub(super) redirections: Vec<Redirection>,
    pub(super) piped: bool,
    pub(super) timed: bool,
    /// A process substitution among the words: a file nobody knows.
    pub(super) substituted: bool,
    /// The input are names of files in the project.
    pub(super) listed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Assigned {
    pub(super) name: String,
    pub(super) value: Word,
    /// Its elements are known to the scope already.
    pub(super) is_array: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Redirection {
    Read(Word),
    Write(Word),
    /// A here-document or here-string: its text, and whether anything in it is expanded.
    Here {
        text: Word,
        descriptor: i32,
    },
    Process,
    Descriptor,
}

impl Scope {
    pub(super) fn new(surroundings: &Surroundings) -> Self {
        Self {
            cwds: vec![surroundings.cwd.clone()],
            moved: None,
            values: HashMap::new(),
            shapes: HashMap::new(),
            astray: false,
            functions: HashSet::new(),
            depth: 0,
            more_arguments: false,
            repeats: false,
            input: Vec::new(),
            input_is_listed: false,
            listed: None,
            reads_on: false,
            sourced: false,
        }
    }

    /// With the texts that these redirections give as input.
    pub(super) fn fed_by(&self, redirections: &[Redirection]) -> Self {
        let texts = redirections.iter().filter_map(|redirection| match redirection {
            Redirection::Here { text, .. } => Some(text.clone()),
            _ => None,
        });
        Self { input: self.input.iter().cloned().chain(texts).collect(), ..self.clone() }
    }

    pub(super) fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, moved: None, more_arguments: false, listed: None, ..self.clone() }
    }

    pub(super) fn repeated(&self) -> Self {
        Self { repeats: true, ..self.clone() }
    }

    pub(super) fn without_functions(&self) -> Self {
        Self { functions: HashSet::new(), ..self.clone() }
    }

    /// Known values of a variable; none when it may be anything.
    pub(super) fn values(&self, name: &str, surroundings: &Surroundings) -> Vec<String> {
        match (self.values.get(name), name) {
            (Some(values), _) => values.clone().unwrap_or_default(),
            (None, "HOME") => vec![surroundings.home.display().to_string()],
            (None, "PWD") => self.cwds.iter().map(|cwd| cwd.display().to_string()).collect(),
            (None, "TMPDIR") => vec!["/tmp".to_owned()],
            (None, "OLDPWD") => vec!["/".to_owned()],
            _ => Vec::new(),
        }
    }

    /// What a variable may be, as `shapes` says it: nothing if this line does not set it, `None` inside if it may be anything.
    pub(super) fn shapes(&self, name: &str, surroundings: &Surroundings) -> Option<Option<Vec<String>>> {
        self.shapes.get(name).cloned().or_else(|| Some(self.values(name, surroundings)).filter(|values| !values.is_empty()).map(Some))
    }

    /// Earlier values stay possible: nobody knows which branch ran.
    pub(super) fn set(&mut self, name: &str, value: Option<String>) {
        add(&mut self.shapes, name, value.clone());
        add(&mut self.values, name, value);
    }

    /// The values this word may give it; none when it may be anything.
    pub(super) fn assign(&mut self, name: &str, word: &Word, surroundings: &Surroundings) {
        let (values, shapes) = (places::assigned(word, self, surroundings), shapes::assigned(word, self, surroundings));
        for (known, values) in [(&mut self.values, values), (&mut self.shapes, shapes)] {
            match values {
                Some(values) => values.into_iter().for_each(|value| add(known, name, Some(value))),
                None => add(known, name, None),
            }
        }
    }

    /// The variable is one of the names that are listed on the input, and what it was before.
    pub(super) fn read_name(&mut self, name: &str, before: Option<Option<Vec<String>>>) {
        let shape = if self.reads_on { shapes::LISTED } else { shapes::PART };
        let known = before.unwrap_or_else(|| Some(Vec::new()));
        self.shapes.insert(name.to_owned(), known.map(|values| values.into_iter().chain([shape.to_string()]).collect()));
    }

    /// What this line said of a variable so far.
    pub(super) fn shapes_so_far(&self, name: &str) -> Option<Option<Vec<String>>> {
        self.shapes.get(name).cloned()
    }

    /// The shapes of a name in the words of a loop, which are never empty.
    fn loop_over(&mut self, name: &str, word: &Word, surroundings: &Surroundings) {
        self.assign(name, word, surroundings);
        let substituted = matches!(word.pieces.as_slice(), [Piece::Unknown { quoted: false, .. }]);
        if let Some(Some(shapes)) = self.shapes.get_mut(name).filter(|_| substituted) {
            let part = shapes::PART.to_string();
            shapes.iter_mut().filter(|shape| **shape == part).for_each(|shape| *shape = shapes::LISTED.to_string());
        }
    }

    /// Words that a script finds as `$1`, `$2`, `$@`; which is which is not followed.
    pub(super) fn give(&mut self, words: &[Word], surroundings: &Surroundings) {
        for name in POSITIONAL.split(' ') {
            words.iter().for_each(|word| self.assign(name, word, surroundings));
            if self.listed.is_some() && self.more_arguments {
                add(&mut self.shapes, name, Some(shapes::PART.to_string()));
            }
        }
    }

    /// A file was read that may set every variable.
    pub(super) fn source(&mut self) {
        self.sourced = true;
        self.shapes.values_mut().for_each(|known| *known = None);
    }

    fn join(&mut self, others: impl IntoIterator<Item = PathBuf>) {
        for other in others {
            if !self.cwds.contains(&other) {
                self.cwds.push(other);
            }
        }
        if DIRECTORIES_MAX < self.cwds.len() {
            self.cwds.clear();
        }
    }
}

fn add(known: &mut HashMap<String, Option<Vec<String>>>, name: &str, value: Option<String>) {
    let entry = known.entry(name.to_owned()).or_insert_with(|| Some(Vec::new()));
    let value = value.filter(|value| value.len() < VALUE_BYTES_MAX);
    *entry = match (entry.take(), value) {
        (Some(mut values), Some(value)) if values.len() < VALUES_MAX => {
            values.push(value);
            Some(values)
        }
        _ => None,
    };
}

impl Judge<'_> {
    pub(super) fn program(&mut self, program: &ast::Program, source: &str, scope: &mut Scope) {
        for list in &program.complete_commands {
            self.list(list, source, scope);
        }
    }

    fn list(&mut self, list: &ast::CompoundList, source: &str, scope: &mut Scope) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            match separator {
                ast::SeparatorOperator::Async => self.and_or(and_or, source, &mut scope.clone()),
                ast::SeparatorOperator::Sequence => self.and_or(and_or, source, scope),
            }
        }
    }

    fn and_or(&mut self, list: &ast::AndOrList, source: &str, scope: &mut Scope) {
        if list.additional.is_empty() {
            self.and_or_list(list, source, scope);
        } else {
            self.perhaps(scope, |judge, scope| judge.and_or_list(list, source, scope));
        }
    }

    /// What may run or not: a function that is defined there may be missing afterwards.
    fn perhaps(&mut self, scope: &mut Scope, walk: impl FnOnce(&mut Self, &mut Scope)) {
        let functions = scope.functions.clone();
        walk(self, scope);
        scope.functions.retain(|name| functions.contains(name));
    }

    fn and_or_list(&mut self, list: &ast::AndOrList, source: &str, scope: &mut Scope) {
        let mut seen: Vec<PathBuf> = scope.cwds.clone();
        let known = !scope.cwds.is_empty();
        for (operator, pipeline) in list {
            let stayed = scope.cwds.clone();
            if let Some(moved) = scope.moved.take()
                && operator == ast::PipelineOperator::And
            {
                scope.cwds = moved;
            }
            self.pipeline(pipeline, source, scope);
            // One more than can be followed is enough to say so.
            for folder in scope.cwds.iter().chain(scope.moved.iter().flatten()) {
                if seen.len() <= DIRECTORIES_MAX && !seen.contains(folder) {
                    seen.push(folder.clone());
                }
            }
            if operator == ast::PipelineOperator::Or {
                scope.cwds = stayed;
            }
            if scope.moved.as_ref().is_some_and(Vec::is_empty) {
                seen.clear();
                scope.cwds.clear();
            }
        }
        let lost = known && seen.is_empty();
        let moved = scope.moved.take();
        if lost {
            scope.cwds.clear();
        } else if list.additional.is_empty() && moved.as_ref().is_some_and(|moved| moved.len() == 1) {
            // A lone `cd x;` that fails leaves us where we were; both are possible.
            scope.join(moved.into_iter().flatten());
        } else if known {
            scope.join(seen);
        }
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline, source: &str, scope: &mut Scope) {
        if pipeline.seq.is_empty() {
            self.distrust("a pipeline without a command");
        }
        let several = 1 < pipeline.seq.len();
        for (at, command) in pipeline.seq.iter().enumerate() {
            let around = Around { piped: 0 < at, timed: at == 0 && pipeline.timed.is_some(), ..Around::default() };
            if several {
                let mut inner = scope.clone();
                if 0 < at {
                    inner.input_is_listed = listing::is_listing(&pipeline.seq[..at], scope, self.surroundings);
                }
                self.command(command, source, &mut inner, around);
            } else {
                self.command(command, source, scope, around);
            }
        }
    }

    fn command(&mut self, command: &ast::Command, source: &str, scope: &mut Scope, around: Around) {
        if !self.count() {
            return;
        }
        if NAMES_MAX < scope.values.len() + scope.functions.len() {
            self.give_up("sets more names than can be followed");
            return;
        }
        match command {
            ast::Command::Simple(simple) => self.words_of(simple, source, scope, around),
            ast::Command::Compound(compound, redirections) => {
                let given = redirections.iter().flat_map(|list| &list.0);
                let listed = listing::redirected(given, scope, self.surroundings).unwrap_or(scope.input_is_listed);
                let was_listed = std::mem::replace(&mut scope.input_is_listed, listed);
                let redirections = self.redirections(redirections.as_ref(), source, scope);
                let fed = scope.fed_by(&redirections).input;
                let input = std::mem::replace(&mut scope.input, fed);
                self.compound(compound, source, scope);
                scope.input = input;
                scope.input_is_listed = was_listed;
            }
            ast::Command::Function(function) => {
                self.expand(&function.fname.value, scope);
                scope.functions.insert(function.fname.value.clone());
                self.redirections(function.body.1.as_ref(), source, scope);
                // Called or not, from wherever: what it does to the directory is not known here.
                let mut inner = scope.deeper().repeated();
                if !self.too_deep(&inner) {
                    self.compound(&function.body.0, source, &mut inner);
                    if inner.cwds != scope.cwds {
                        scope.cwds.clear();
                    }
                }
            }
            ast::Command::ExtendedTest(test, redirections) => {
                self.redirections(redirections.as_ref(), source, scope);
                let mut reasons = Vec::new();
                self.test(&test.expr, scope, &mut reasons);
                self.neutral(format!("[[ {} ]]", test.expr), &reasons);
            }
        }
    }

    fn compound(&mut self, compound: &ast::CompoundCommand, source: &str, scope: &mut Scope) {
        if self.too_deep(scope) {
            return;
        }
        scope.depth += 1;
        match compound {
            ast::CompoundCommand::BraceGroup(group) => self.list(&group.list, source, scope),
            ast::CompoundCommand::Subshell(subshell) => self.list(&subshell.list, source, &mut scope.clone()),
            _ => self.perhaps(scope, |judge, scope| judge.branches(compound, source, scope)),
        }
        scope.depth -= 1;
    }

    fn branches(&mut self, compound: &ast::CompoundCommand, source: &str, scope: &mut Scope) {
        match compound {
            ast::CompoundCommand::Arithmetic(arithmetic) => self.arithmetic_command(arithmetic, source, scope),
            ast::CompoundCommand::ArithmeticForClause(clause) => {
                for expression in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.arithmetic(&expression.value, scope);
                }
                self.looped(&[&clause.body.list], source, scope);
            }
            ast::CompoundCommand::BraceGroup(_) | ast::CompoundCommand::Subshell(_) => {}
            ast::CompoundCommand::ForClause(clause) => self.for_clause(clause, source, scope),
            ast::CompoundCommand::CaseClause(clause) => {
                self.expand(&clause.value.value, scope);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.expand(&pattern.value, scope);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list, source, scope);
                    }
                }
            }
            ast::CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, source, scope);
                self.list(&clause.then, source, scope);
                for part in clause.elses.iter().flatten() {
                    if let Some(condition) = &part.condition {
                        self.list(condition, source, scope);
                    }
                    self.list(&part.body, source, scope);
                }
            }
            ast::CompoundCommand::WhileClause(clause) => {
                let reads_on = std::mem::replace(&mut scope.reads_on, reads_only(&clause.0));
                self.looped(&[&clause.0, &clause.1.list], source, scope);
                scope.reads_on = reads_on;
            }
            ast::CompoundCommand::UntilClause(clause) => self.looped(&[&clause.0, &clause.1.list], source, scope),
            ast::CompoundCommand::Coprocess(coprocess) => {
                self.command(&coprocess.body, source, &mut scope.clone(), Around { piped: true, ..Around::default() })
            }
        }
    }

    /// A body that runs again starts where its last round ended.
    fn looped(&mut self, lists: &[&ast::CompoundList], source: &str, scope: &mut Scope) {
        let (before, known) = (scope.cwds.clone(), scope.shapes.clone());
        let repeats = std::mem::replace(&mut scope.repeats, true);
        let reads_on = scope.reads_on;
        for (at, list) in lists.iter().enumerate() {
            scope.reads_on = reads_on && at == 0;
            self.list(list, source, scope);
        }
        // What a round leaves in a variable, the next one finds.
        let lost = known.iter().any(|(name, shapes)| shapes.is_some() && scope.shapes.get(name) == Some(&None));
        if scope.cwds != before || lost {
            if scope.cwds != before {
                scope.cwds.clear();
            }
            for (at, list) in lists.iter().enumerate() {
                scope.reads_on = reads_on && at == 0;
                self.list(list, source, scope);
            }
        }
        scope.repeats = repeats;
    }

    fn for_clause(&mut self, clause: &ast::ForClauseCommand, source: &str, scope: &mut Scope) {
        let name = clause.variable_name.as_str();
        let mut reasons = Vec::new();
        if variables::executes(name) {
            reasons.push(Reason::new(Reach::Beside, format!("the loop sets {name}")));
            self.git_variable(name, None, scope);
        }
        let words = clause.values.iter().flatten().flat_map(|value| self.argument(&value.value, scope)).collect::<Vec<_>>();
        if clause.values.is_none() {
            scope.set(name, None);
        }
        for word in &words {
            let outside = places::places(word, scope, self.surroundings).into_iter().find_map(|place| match place {
                places::Place::Outside(path) => Some(path),
                _ => None,
            });
            let text = word.text();
            if let Some(path) = outside.filter(|_| text.starts_with(['/', '~', '$']) || text.contains("..")) {
                reasons.push(Reason::new(Reach::Beside, format!("loops over {}, outside the project", path.display())));
            }
            if text.starts_with('-') {
                reasons.push(Reason::new(Reach::Beside, "loops over options"));
            }
            if word.is_dynamic() {
                scope.loop_over(name, word, self.surroundings);
            } else {
                scope.set(name, Some(text));
            }
        }
        if !reasons.is_empty() {
            self.neutral(format!("for {name} in {}", words.iter().map(Word::text).collect::<Vec<_>>().join(" ")), &reasons);
        }
        self.looped(&[&clause.body.list], source, scope);
    }

    /// `(( ... ))`. The parser also takes two subshells for it; then it is a script.
    fn arithmetic_command(&mut self, arithmetic: &ast::ArithmeticCommand, source: &str, scope: &Scope) {
        let expression = &arithmetic.expr.value;
        let (start, end) = (arithmetic.loc.start.index, arithmetic.loc.end.index);
        let range: String = letters(source, start, end);
        let adjacent = range.starts_with("((") && range.ends_with("))");
        if adjacent {
            self.arithmetic(expression, scope);
            self.neutral(format!("(({expression}))"), &[]);
        } else {
            let inside = range.strip_prefix('(').unwrap_or(&range);
            let inside = inside.strip_suffix(')').unwrap_or(inside);
            if inside.contains("<<") {
                self.distrust("a here-document in nested parentheses");
            }
            self.script(inside, scope);
        }
    }

    fn arithmetic(&mut self, expression: &str, scope: &Scope) {
        let mut effects = Effects::default();
        effects.arithmetic(expression);
        self.effects(effects, expression, scope);
    }

    fn test(&mut self, test: &ast::ExtendedTestExpr, scope: &Scope, reasons: &mut Vec<Reason>) {
        use ast::UnaryPredicate as Unary;
        match test {
            ast::ExtendedTestExpr::And(left, right) | ast::ExtendedTestExpr::Or(left, right) => {
                self.test(left, scope, reasons);
                self.test(right, scope, reasons);
            }
            ast::ExtendedTestExpr::Not(inner) | ast::ExtendedTestExpr::Parenthesized(inner) => self.test(inner, scope, reasons),
            ast::ExtendedTestExpr::UnaryTest(predicate, word) => {
                let evaluated = matches!(predicate, Unary::ShellVariableIsSetAndAssigned | Unary::ShellVariableIsSetAndNameRef);
                let word = self.test_word(word, evaluated, scope);
                let text = matches!(
                    predicate,
                    Unary::StringHasNonZeroLength | Unary::StringHasZeroLength | Unary::ShellOptionEnabled | Unary::FdIsOpenTerminal
                );
                if !evaluated && !text {
                    self.path_reason(&word, false, scope, reasons);
                }
            }
            ast::ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                let evaluated = matches!(
                    predicate,
                    ast::BinaryPredicate::ArithmeticEqualTo
                        | ast::BinaryPredicate::ArithmeticNotEqualTo
                        | ast::BinaryPredicate::ArithmeticLessThan
                        | ast::BinaryPredicate::ArithmeticLessThanOrEqualTo
                        | ast::BinaryPredicate::ArithmeticGreaterThan
                        | ast::BinaryPredicate::ArithmeticGreaterThanOrEqualTo
                );
                self.test_word(left, evaluated, scope);
                self.test_word(right, evaluated, scope);
            }
        }
    }

    fn test_word(&mut self, word: &ast::Word, evaluated: bool, scope: &Scope) -> Word {
        let mut effects = Effects::default();
        let expanded = effects.word(&word.value);
        if evaluated && let Some(text) = quoted_text(&expanded) {
            effects.evaluated(&text);
        }
        self.effects(effects, &word.value, scope);
        expanded
    }

    /// Runs what expanding found; true if the words can be trusted.
    pub(super) fn effects(&mut self, effects: Effects, text: &str, scope: &Scope) {
        for reason in effects.opaque {
            self.unknown(text, reason);
        }
        for reason in effects.distrusted {
            self.distrust(reason);
        }
        for name in effects.assigned.iter().filter(|name| variables::executes(name)) {
            self.neutral(format!("{name}="), &[Reason::new(Reach::Beside, format!("sets {name}"))]);
            self.git_variable(name, None, scope);
        }
        for script in effects.scripts {
            self.script(&script, scope);
        }
    }

    /// One word, without brace expansion: an assigned value, a redirection's target, a pattern.
    pub(super) fn expand(&mut self, source: &str, scope: &Scope) -> Word {
        if !self.spend(1 + parse::word_effort(source)) {
            return Word::unknown(source);
        }
        let mut effects = Effects::default();
        let word = effects.word(source);
        self.control_characters(source, &word);
        self.effects(effects, source, scope);
        word
    }

    /// One argument, which braces may make several.
    pub(super) fn argument(&mut self, source: &str, scope: &Scope) -> Vec<Word> {
        match braces::expand(source) {
            Some(words) => words.iter().map(|word| self.expand(word, scope)).collect(),
            None => {
                self.distrust("braces that expand to too much");
                vec![Word::unknown(source)]
            }
        }
    }

    /// A redirection's target: braces are expanded there too, and bash refuses more than one word.
    fn target(&mut self, source: &str, scope: &Scope) -> Word {
        match braces::expand(source) {
            Some(words) if words.len() == 1 => self.expand(&words[0], scope),
            _ => {
                self.distrust("a redirection with braces");
                self.expand(source, scope)
            }
        }
    }

    /// Characters that look like something else to a person, or to another splitter.
    fn control_characters(&mut self, source: &str, word: &Word) {
        let hidden = |letter: char| {
            (letter.is_control() && !matches!(letter, '\t' | '\n'))
                || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' | '\u{85}' | '\u{2028}' | '\u{2029}')
        };
        if source.chars().any(hidden) {
            self.unknown(&word.text().escape_debug().to_string(), "a control or hidden character");
        }
    }

    fn words_of(&mut self, simple: &ast::SimpleCommand, source: &str, scope: &mut Scope, mut around: Around) {
        let mut words = Vec::new();
        let items = simple.prefix.iter().flat_map(|prefix| &prefix.0).chain(simple.suffix.iter().flat_map(|suffix| &suffix.0));
        let redirections = items.filter_map(|item| match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirection) => Some(redirection),
            _ => None,
        });
        around.listed = listing::redirected(redirections, scope, self.surroundings).unwrap_or(scope.input_is_listed);
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            self.item(item, source, scope, &mut words, &mut around, true);
        }
        if let Some(name) = &simple.word_or_name {
            words.extend(self.argument(&name.value, scope));
        }
        let suffix: Vec<_> = simple.suffix.iter().flat_map(|suffix| &suffix.0).collect();
        for item in suffix {
            self.item(item, source, scope, &mut words, &mut around, false);
        }
        self.simple(words, scope, around);
    }

    fn item(
        &mut self,
        item: &ast::CommandPrefixOrSuffixItem,
        source: &str,
        scope: &mut Scope,
        words: &mut Vec<Word>,
        around: &mut Around,
        prefix: bool,
    ) {
        match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirection) => {
                // `{name}>file` is a redirection whose descriptor goes into a variable.
                if let Some(name) = words.pop_if(|word| is_descriptor_name(word)) {
                    // A number, like that of the process.
                    scope.assign(name.text().trim_matches(['{', '}']), &Word::unknown("$$"), self.surroundings);
                }
                let redirection = self.redirection(redirection, source, scope);
                around.redirections.push(redirection);
            }
            ast::CommandPrefixOrSuffixItem::Word(word) => words.extend(self.argument(&word.value, scope)),
            ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                let assigned = self.assignment(assignment, scope);
                if prefix {
                    around.assignments.push(assigned);
                } else {
                    let text = self.argument(&word.value, scope);
                    words.extend(text);
                }
            }
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list, source, &mut scope.deeper());
                around.substituted = true;
                words.push(Word { pieces: vec![Piece::Unknown { quoted: true, source: "<(...)".to_owned() }] });
            }
        }
    }

    fn assignment(&mut self, assignment: &ast::Assignment, scope: &mut Scope) -> Assigned {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name.clone(),
            ast::AssignmentName::ArrayElementName(name, index) => {
                self.arithmetic(index, scope);
                name.clone()
            }
        };
        let value = match &assignment.value {
            ast::AssignmentValue::Scalar(word) => self.expand(&word.value, scope),
            ast::AssignmentValue::Array(elements) => {
                for (key, value) in elements {
                    if let Some(key) = key {
                        self.arithmetic(&key.value, scope);
                    }
                    for element in self.argument(&value.value, scope) {
                        scope.set(&name, element.literal());
                    }
                }
                Word { pieces: vec![Piece::Unknown { quoted: false, source: "(...)".to_owned() }] }
            }
        };
        let is_array = matches!(assignment.value, ast::AssignmentValue::Array(_));
        Assigned { name, value, is_array }
    }

    /// Redirections without a command of their own: what is denied by their text.
    pub(super) fn denied_redirection(&mut self, text: &str) {
        if let Some(rule) = self.stricter(text, None, Verdict::Deny) {
            self.find(rule.action, text, String::new(), Some(rule));
        }
    }

    fn redirections(&mut self, list: Option<&ast::RedirectList>, source: &str, scope: &Scope) -> Vec<Redirection> {
        let redirections: Vec<Redirection> =
            list.iter().flat_map(|list| &list.0).map(|redirection| self.redirection(redirection, source, scope)).collect();
        let (reasons, text) = self.redirection_reasons(&redirections, scope);
        if !text.is_empty() {
            self.denied_redirection(&text);
            self.neutral(text, &reasons);
        }
        redirections
    }

    fn redirection(&mut self, redirection: &ast::IoRedirect, source: &str, scope: &Scope) -> Redirection {
        use ast::{IoFileRedirectKind as Kind, IoFileRedirectTarget as Target};
        match redirection {
            ast::IoRedirect::File(_, kind, target) => match target {
                Target::Fd(_) => Redirection::Descriptor,
                Target::ProcessSubstitution(_, subshell) => {
                    self.list(&subshell.list, source, &mut scope.deeper());
                    Redirection::Process
                }
                Target::Filename(word) => {
                    let word = self.target(&word.value, scope);
                    if matches!(kind, Kind::Read) { Redirection::Read(word) } else { Redirection::Write(word) }
                }
                Target::Duplicate(word) => {
                    let word = self.target(&word.value, scope);
                    let text = word.text();
                    let descriptor =
                        !word.is_dynamic() && !text.is_empty() && text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                    match kind {
                        _ if descriptor => Redirection::Descriptor,
                        Kind::DuplicateInput => Redirection::Read(word),
                        _ => Redirection::Write(word),
                    }
                }
            },
            ast::IoRedirect::OutputAndError(word, _) => Redirection::Write(self.target(&word.value, scope)),
            ast::IoRedirect::HereString(descriptor, word) => {
                Redirection::Here { text: self.expand(&word.value, scope), descriptor: descriptor.unwrap_or(0) }
            }
            ast::IoRedirect::HereDocument(descriptor, document) => {
                if !parse::plain_tag(&document.here_end.value) {
                    self.distrust("a here-document with an unusual end");
                }
                let text = if document.requires_expansion {
                    self.spend(parse::word_effort(&document.doc.value));
                    let mut effects = Effects::default();
                    let text = effects.text(&document.doc.value);
                    self.effects(effects, "<<", scope);
                    text
                } else {
                    Word::plain(&document.doc.value)
                };
                Redirection::Here { text, descriptor: descriptor.unwrap_or(0) }
            }
        }
    }
}

/// `read -r f`, `read f || [ -n "$f" ]`: what follows runs only with something in it.
fn reads_only(list: &ast::CompoundList) -> bool {
    let name_of = |pipeline: &ast::Pipeline| match pipeline.seq.as_slice() {
        [ast::Command::Simple(simple)] => simple.word_or_name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
        [ast::Command::ExtendedTest(..)] => "[[".to_owned(),
        _ => String::new(),
    };
    let [ast::CompoundListItem(and_or, _)] = list.0.as_slice() else { return false };
    let mut further = and_or.into_iter().skip(1);
    name_of(&and_or.first) == "read" && further.all(|(_, pipeline)| matches!(name_of(pipeline).as_str(), "[" | "[[" | "test"))
}

/// Letters by their number, which is a byte's number in most lines.
fn letters(source: &str, start: usize, end: usize) -> String {
    if source.is_ascii() {
        return source.get(start..end).unwrap_or_default().to_owned();
    }
    source.chars().skip(start).take(end.saturating_sub(start)).collect()
}

/// `{name}`, `{name[0]}`, as it is written: `'{ rm x; }' < in` is a word and a redirection.
fn is_descriptor_name(word: &Word) -> bool {
    let [Piece::Text { text, quoted: false }] = word.pieces.as_slice() else { return false };
    let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else { return false };
    let bare = name.split_once('[').filter(|_| name.ends_with(']')).map_or(name, |(bare, _)| bare);
    !bare.is_empty()
        && !bare.starts_with(|letter: char| letter.is_ascii_digit())
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The parts of a word that were protected from expansion once, and are evaluated now.
pub(super) fn quoted_text(word: &Word) -> Option<String> {
    let text: String = word
        .pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    text.contains(['$', '`']).then_some(text)
}
