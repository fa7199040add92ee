//! Plans of statements over rows.
//!
//! 1. A transaction uses the relations of a plan that it has made or taken: none of them changes before its
//!    end. Where the catalog turns out to be newer the plan is made again.
use std::sync::{Arc, PoisonError};

use super::LocalSession;
use super::portal::{KeptPlan, Prepared};
use crate::bind::Binder;
use crate::error::{Result, SqlError};
use crate::exec::store::Store;
use crate::parse::ast::Statement;
use crate::plan::{PlannedStatement, Planner, relations_of};
use crate::session::ColumnDescription;
use crate::types::Oid;

impl<S: Store> LocalSession<S> {
    /// Binds and plans a statement over rows, and uses its relations from then on.
    pub(crate) fn plan(
        &self,
        statement: &Statement,
        parameters: Vec<Oid>,
    ) -> Result<(PlannedStatement, Vec<Oid>)> {
        self.plan_as(0, statement, parameters)
    }

    /// As [`LocalSession::plan`], with the rights of another role; 0: of the session's.
    pub(crate) fn plan_as(
        &self,
        role: Oid,
        statement: &Statement,
        parameters: Vec<Oid>,
    ) -> Result<(PlannedStatement, Vec<Oid>)> {
        loop {
            let made = self.plan_once(role, statement, parameters.clone())?;
            if !self.store.hold(&made.0.relations)? {
                return Ok(made);
            }
        }
    }

    fn plan_once(
        &self,
        role: Oid,
        statement: &Statement,
        parameters: Vec<Oid>,
    ) -> Result<(PlannedStatement, Vec<Oid>)> {
        self.with_context(|ctx, path| {
            let binder = Binder::new(ctx, &self.store, path, parameters);
            let bound = binder.acting_as(role, || binder.statement(statement));
            // Names are looked up before anything else is found wrong.
            self.may_look_into(&binder.needs.borrow())?;
            let mut bound = bound?;
            let parameters = binder.parameter_types()?;
            let failing = crate::plan::constants::failing(&ctx, &mut bound);
            let mut plan = Planner::plan(&self.store, ctx, bound, binder.next_cte.get());
            plan.relations = relations_of(&self.store, &binder.needs.borrow());
            (plan.needs, plan.failing) = (binder.needs.into_inner(), failing);
            Ok((plan, parameters))
        })
    }

    /// A plan that was just made, for as long as it holds.
    pub(crate) fn keep(&self, plan: Arc<PlannedStatement>) -> KeptPlan {
        let (version, statistics) = (self.store.version(), self.store.statistics_version());
        KeptPlan { version, statistics, path: self.search_path(), plan }
    }

    /// The plan of a prepared statement, made again where the catalog has changed, the schemas in which names
    /// are looked for, or what is known of tables' rows.
    pub(crate) fn plan_of(&self, prepared: &Prepared) -> Result<Arc<PlannedStatement>> {
        let (version, path) = (self.store.version(), self.search_path());
        if let Some(kept) = prepared.kept()
            && (kept.version, &kept.path) == (version, &path)
            && kept.statistics == self.store.statistics_version()
            && !self.store.hold(&kept.plan.relations)?
        {
            return Ok(kept.plan);
        }
        let statement = prepared.statement.as_ref().expect("only statements over rows are planned");
        let (plan, _) = self.plan(statement, prepared.parameters.clone())?;
        let plan = Arc::new(plan);
        let columns = plan.columns().map(|columns| self.described(columns));
        // The same names and types of another table will do.
        let shape = |columns: &Option<Vec<ColumnDescription>>| {
            let of = |column: &ColumnDescription| (column.name.clone(), column.ty);
            columns.as_ref().map(|columns| columns.iter().map(of).collect::<Vec<_>>())
        };
        if shape(&columns) != shape(&prepared.columns) {
            // Drivers that prepare by themselves look at the routine, and prepare again.
            let message = "cached plan must not change result type";
            let error = SqlError::refused_by_postgresql(message);
            return Err(error.routine("RevalidateCachedQuery"));
        }
        let made = self.keep(plan.clone());
        *prepared.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(plan)
    }
}
