//! All tables of a catalog: namespaces within namespaces, each list page by page. What cannot be listed is
//! told apart from what is empty, so that a table is never taken for gone because its list was not to be had.

use std::collections::BTreeSet;

use nilas_base::HashSet;
use serde::Deserialize;

use super::page::Pages;
use super::{Answer, CatalogError, Namespace, Question, Routes, TableName};

/// How deep namespaces lie within one another.
const LEVELS_MAX: usize = 64;
/// Things that went wrong with one listing and are told of.
const TROUBLES_MAX: usize = 16;

/// What bounds a listing.
#[derive(Clone, Copy, Debug)]
pub struct ListingLimits {
    /// Tables that are wanted; the rest is left out, and said to be.
    pub tables_max: usize,
    /// Namespaces that are looked into.
    pub namespaces_max: usize,
}

/// What a listing found.
#[derive(Debug, Default)]
pub struct Listed {
    /// The tables that are wanted, views not among them.
    pub tables: BTreeSet<TableName>,
    /// Namespaces in which there may be more tables, at any depth; the root says so of everything.
    pub unsure: Vec<Namespace>,
    /// Why, for people.
    pub troubles: Vec<String>,
    /// Namespaces looked into.
    pub namespaces: usize,
    /// Views that were listed.
    pub views: usize,
}

impl Listed {
    /// Whether a table that is not among those found is gone.
    pub fn is_gone(&self, name: &TableName) -> bool {
        let is_unsure = self.unsure.iter().any(|namespace| namespace.holds(&name.namespace));
        !is_unsure && !self.tables.contains(name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Namespaces,
    Tables,
    Views,
}

#[derive(Debug)]
struct Step {
    what: What,
    within: Namespace,
    pages: Pages,
}

/// A listing under way: [`Listing::question`] says what to ask, [`Listing::take`] takes what came of it.
pub struct Listing {
    routes: Routes,
    limits: ListingLimits,
    wants: Box<dyn Fn(&TableName) -> bool + Send>,
    /// The last is under way.
    steps: Vec<Step>,
    known: HashSet<Namespace>,
    listed: Listed,
}

#[derive(Deserialize)]
struct NamespacesBody {
    namespaces: Vec<Vec<String>>,
    #[serde(default, rename = "next-page-token")]
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct IdentifiersBody {
    identifiers: Vec<Identifier>,
    #[serde(default, rename = "next-page-token")]
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Identifier {
    namespace: Vec<String>,
    name: String,
}

impl Listing {
    /// A listing of the tables that `wants` lets in.
    pub fn new(
        routes: Routes,
        limits: ListingLimits,
        wants: Box<dyn Fn(&TableName) -> bool + Send>,
    ) -> Listing {
        let (known, listed) = (HashSet::default(), Listed::default());
        let mut listing = Listing { routes, limits, wants, steps: Vec::new(), known, listed };
        listing.begin(What::Namespaces, Namespace::default());
        listing
    }

    /// What to ask next; `None` at the end.
    pub fn question(&self) -> Option<Question> {
        let Step { what, within, pages } = self.steps.last()?;
        Some(match what {
            What::Namespaces => self.routes.namespaces(within, pages.token()),
            What::Tables => self.routes.tables(within, pages.token()),
            What::Views => self.routes.views(within, pages.token()).expect("begun only if listed"),
        })
    }

    /// Takes the answer to [`Listing::question`].
    pub fn take(&mut self, answer: &Answer) {
        let Some(mut step) = self.steps.pop() else { return };
        let next = match step.what {
            What::Namespaces => self.take_namespaces(&step, answer),
            What::Tables | What::Views => self.take_identifiers(&step, answer),
        };
        match next.map(|token| step.pages.turn(token)) {
            Ok(Ok(true)) => self.steps.push(step),
            Ok(Ok(false)) => {}
            Ok(Err(cause)) => self.doubt(&step, &format!("the server gives {cause}")),
            Err(error) if is_quiet(&step, &error) => {}
            Err(error) => self.doubt(&step, &error.to_string()),
        }
    }

    /// Says that [`Listing::question`] found no answer.
    pub fn fail(&mut self, cause: &str) {
        if let Some(step) = self.steps.pop() {
            self.doubt(&step, cause);
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Listed {
        // A listing that is left in the middle is sure of nothing.
        if !self.steps.is_empty() {
            self.listed.unsure.push(Namespace::default());
        }
        self.listed
    }

    fn begin(&mut self, what: What, within: Namespace) {
        self.steps.push(Step { what, within, pages: Pages::default() });
    }

    fn take_namespaces(
        &mut self,
        step: &Step,
        answer: &Answer,
    ) -> Result<Option<String>, CatalogError> {
        let body: NamespacesBody = answer.json()?;
        for namespace in body.namespaces.into_iter().map(Namespace) {
            // A server that does not know `parent` gives the outermost ones again.
            let is_within =
                namespace.0.len() > step.within.0.len() && step.within.holds(&namespace);
            if !is_within || self.known.contains(&namespace) {
                continue;
            }
            if self.known.len() == self.limits.namespaces_max || namespace.0.len() > LEVELS_MAX {
                let (count, cause) = (self.limits.namespaces_max, "namespaces are looked into");
                self.doubt(step, &format!("no more than {count}, {LEVELS_MAX} deep, {cause}"));
                continue;
            }
            self.known.insert(namespace.clone());
            self.listed.namespaces += 1;
            self.begin(What::Namespaces, namespace.clone());
            self.begin(What::Tables, namespace.clone());
            if self.routes.has_views() {
                self.begin(What::Views, namespace);
            }
        }
        Ok(body.next_page_token)
    }

    fn take_identifiers(
        &mut self,
        step: &Step,
        answer: &Answer,
    ) -> Result<Option<String>, CatalogError> {
        let body: IdentifiersBody = answer.json()?;
        for Identifier { namespace, name } in body.identifiers {
            let name = TableName { namespace: Namespace(namespace), name };
            if step.what == What::Views {
                self.listed.views += 1;
                continue;
            }
            if !(self.wants)(&name) || self.listed.tables.contains(&name) {
                continue;
            }
            if self.listed.tables.len() == self.limits.tables_max {
                let cause = format!("there are more than {} tables", self.limits.tables_max);
                self.doubt_all(&cause);
                break;
            }
            self.listed.tables.insert(name);
        }
        Ok(body.next_page_token)
    }

    fn doubt(&mut self, step: &Step, cause: &str) {
        if step.what == What::Views {
            return;
        }
        let what = if step.what == What::Tables { "tables" } else { "namespaces" };
        self.tell(format!("the {what} in {:?} cannot be listed: {cause}", step.within.to_string()));
        self.listed.unsure.push(step.within.clone());
    }

    /// Nothing more is asked.
    fn doubt_all(&mut self, cause: &str) {
        self.tell(cause.to_owned());
        self.steps.clear();
        self.listed.unsure.push(Namespace::default());
    }

    fn tell(&mut self, trouble: String) {
        if self.listed.troubles.len() < TROUBLES_MAX && !self.listed.troubles.contains(&trouble) {
            self.listed.troubles.push(trouble);
        }
    }
}

/// Whether an error of a list says only that there is none: a server without namespaces in namespaces, a namespace that
/// was dropped a moment ago.
fn is_quiet(step: &Step, error: &CatalogError) -> bool {
    let is_nested = step.what == What::Namespaces && !step.within.0.is_empty();
    match error {
        CatalogError::Missing { .. } => !step.within.0.is_empty(),
        CatalogError::Refused { status, .. } => is_nested && matches!(status, 400 | 405 | 406),
        CatalogError::Failed { status, .. } => is_nested && *status == 501,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
