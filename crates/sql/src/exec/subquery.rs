//! Queries within expressions, and the lists that IN and ANY search.
//!
//! 1. A list or a result that is the same each time is searched by hashes, from the second time on; where
//!    hashes do not decide it is gone through, as in PostgreSQL's order.
//! 2. A query that looks outside is not run again for values that it was run for.

use std::rc::Rc;
use std::sync::Arc;

use super::eval::{Truth, nest, truth};
use super::hashed::Members;
use super::kept::{Rows, tell};
use super::spill::TupleStore;
use super::{Env, Exec, Row};
use crate::error::{Result, SqlError, SqlState};
use crate::tree::{Expr, Head, Memo, Query, Subquery, SubqueryKind};
use crate::types::oid;
use crate::types::value::{Array, Value};

/// So many elements are searched by hashes.
const HASHED: usize = 9;

/// What is known of the list of an IN or the array of an ANY.
#[derive(Clone)]
pub(super) enum Searched {
    /// It is gone through.
    Unfit,
    /// The list has been gone through once.
    Once,
    /// The array that was there the last time, and how it is searched if it is there again.
    Array(Arc<Array>, Option<Rc<Members>>),
    List(Rc<Members>),
}

/// The comparison that decides, and whether it is denied: `<> ALL` is no `= ANY`.
fn deciding(heads: &[Head], all: bool) -> Option<Vec<Head>> {
    let heads = match all {
        false => Some(heads.to_vec()),
        true => heads.iter().map(Head::denied).collect(),
    };
    heads.filter(|heads| heads.iter().all(Head::is_hashed))
}

/// Whether an element of a list is the same each time.
fn is_fixed(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) | Expr::Param(_) => true,
        Expr::Cast { expr, .. } => is_fixed(expr),
        _ => false,
    }
}

impl<'p> Exec<'p> {
    pub(super) fn in_list(
        &self,
        head: &'p Head,
        left: &'p Expr,
        list: &'p [Expr],
        env: &Env<'_>,
    ) -> Result<Truth> {
        let left = self.eval(left, env)?;
        if list.len() >= HASHED
            && let Some(members) = self.list_members(head, list, env)?
        {
            return self.is_among(&members, &[left]);
        }
        let mut found = Some(false);
        for item in list {
            match self.test(head, left.clone(), self.eval(item, env)?)? {
                Some(true) => return Ok(Some(true)),
                None => found = None,
                Some(false) => {}
            }
        }
        Ok(found)
    }

    /// A list to be searched, from the second time on; what fails in it fails when it is gone through.
    fn list_members(&self, head: &'p Head, list: &'p [Expr], env: &Env<'_>) -> Result<Option<Rc<Members>>> {
        let key = list.as_ptr().addr();
        let known = self.searched.borrow().get(&key).cloned();
        let next = match known {
            Some(Searched::List(members)) => return Ok(Some(members)),
            Some(Searched::Once) => {
                let rows: Result<Vec<Row>> =
                    list.iter().map(|item| Ok(vec![self.eval(item, env)?])).collect();
                let members = match rows {
                    Ok(rows) => self.members(std::slice::from_ref(head), self.keep(rows)?)?,
                    Err(_) => None,
                };
                members.map_or(Searched::Unfit, |members| Searched::List(Rc::new(members)))
            }
            None if head.is_hashed() && list.iter().all(is_fixed) => Searched::Once,
            _ => return Ok(None),
        };
        self.searched.borrow_mut().insert(key, next.clone());
        Ok(if let Searched::List(members) = next { Some(members) } else { None })
    }

    pub(super) fn any_array(
        &self,
        head: &'p Head,
        left: &'p Expr,
        (array, cache): (&'p Expr, Option<usize>),
        all: bool,
        env: &Env<'_>,
    ) -> Result<Value> {
        let left = self.eval(left, env)?;
        let key = std::ptr::from_ref(array).addr();
        let known = cache.and_then(|cache| self.caches.borrow()[cache].array.clone());
        let value = match known {
            Some(value) => value,
            None => {
                let value = self.eval(array, env)?;
                if let Some(cache) = cache {
                    self.caches.borrow_mut()[cache].array = Some(value.clone());
                }
                value
            }
        };
        let Value::Array(array) = value else { return Ok(Value::Null) };
        if array.elements.len() >= HASHED
            && let Some(members) = self.array_members(key, head, all, &array)?
        {
            let found = self.is_among(&members, &[left])?;
            return Ok(truth(found.map(|found| found != all)));
        }
        let mut result = Some(all);
        for element in &array.elements {
            match self.test(head, left.clone(), element.clone())? {
                Some(value) if value != all => return Ok(Value::Bool(!all)),
                None => result = None,
                Some(_) => {}
            }
        }
        Ok(truth(result))
    }

    /// An array to be searched, if it is the one that was there the last time.
    fn array_members(
        &self,
        key: usize,
        head: &Head,
        all: bool,
        array: &Arc<Array>,
    ) -> Result<Option<Rc<Members>>> {
        let known = self.searched.borrow().get(&key).cloned();
        let next = match known {
            Some(Searched::Array(last, members)) if Arc::ptr_eq(&last, array) => match members {
                Some(members) => return Ok(Some(members)),
                None => {
                    let Some(heads) = deciding(std::slice::from_ref(head), all) else { return Ok(None) };
                    let rows = array.elements.iter().map(|element| vec![element.clone()]).collect();
                    let Some(members) = self.members(&heads, self.keep(rows)?)? else { return Ok(None) };
                    Searched::Array(last, Some(Rc::new(members)))
                }
            },
            Some(Searched::Unfit) => return Ok(None),
            _ if deciding(std::slice::from_ref(head), all).is_none() => Searched::Unfit,
            _ => Searched::Array(array.clone(), None),
        };
        self.searched.borrow_mut().insert(key, next.clone());
        Ok(if let Searched::Array(_, members) = next { members } else { None })
    }

    /// Rows that are kept.
    fn keep(&self, rows: Vec<Row>) -> Result<Rows> {
        let mut kept = self.kept_rows();
        rows.into_iter().try_for_each(|row| kept.push(row))?;
        Ok(Rc::new(kept))
    }

    /// The rows of a query within an expression; kept where they are always the same.
    fn subquery_rows(&self, subquery: &'p Subquery, env: &Env<'_>, most: usize) -> Result<Rows> {
        if let Some(memo) = &subquery.memo {
            return self.memoized(memo, &subquery.query, env, env, most);
        }
        let Some(cache) = subquery.cache else { return self.collect(&subquery.query, env, most) };
        let known = self.caches.borrow()[cache].rows.clone();
        if let Some(rows) = known {
            return Ok(rows);
        }
        let rows = self.collect(&subquery.query, env, most)?;
        self.caches.borrow_mut()[cache].rows = Some(rows.clone());
        Ok(rows)
    }

    fn collect(&self, query: &'p Query, env: &Env<'_>, most: usize) -> Result<Rows> {
        let mut rows = self.kept_rows();
        self.repeating(|| {
            self.run_some(query, Some(env), most, &mut |row| {
                rows.push(row)?;
                Ok(rows.len() < most)
            })
        })?;
        Ok(Rc::new(rows))
    }

    /// The rows of a query that looks at rows around it: those that it gave for the same values, or new ones.
    /// `asks`: what its values are told by; `env`: what it looks at.
    pub(super) fn memoized(
        &self,
        memo: &'p Memo,
        query: &'p Query,
        asks: &Env<'_>,
        env: &Env<'_>,
        most: usize,
    ) -> Result<Rows> {
        if !self.caches.borrow()[memo.cache].memo.is_worth() {
            return self.collect(query, env, most);
        }
        let mut key = Vec::new();
        for value in &memo.by {
            if !tell(&self.eval(value, asks)?, &mut key) {
                return self.collect(query, env, most);
            }
        }
        let known = self.caches.borrow_mut()[memo.cache].memo.find(&key);
        if let Some(rows) = known {
            return Ok(rows);
        }
        let rows = self.collect(query, env, most)?;
        self.caches.borrow_mut()[memo.cache].memo.keep(key.into(), &rows, self.ctx.settings.hash_mem());
        Ok(rows)
    }

    pub(super) fn subquery(&self, subquery: &'p Subquery, env: &Env<'_>) -> Result<Value> {
        match &subquery.kind {
            SubqueryKind::Exists => Ok(Value::Bool(!self.subquery_rows(subquery, env, 1)?.is_empty())),
            SubqueryKind::Scalar(column) => {
                let rows = self.subquery_rows(subquery, env, 2)?;
                if rows.len() > 1 {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
                }
                Ok(match rows.reading().next()? {
                    Some(row) => row[*column].clone(),
                    None => Value::Null,
                })
            }
            SubqueryKind::Array(element) => {
                let known = subquery.cache.and_then(|cache| self.caches.borrow()[cache].array.clone());
                if let Some(array) = known {
                    return Ok(array);
                }
                let rows = self.subquery_rows(subquery, env, usize::MAX)?;
                let mut values = Row::with_capacity(rows.len());
                rows.each(|row| {
                    values.push(row[0].clone());
                    Ok(true)
                })?;
                // A vector is one value.
                let is_vector = matches!(*element, oid::INT2VECTOR | oid::OIDVECTOR);
                let nested = !is_vector && values.iter().any(|value| matches!(value, Value::Array(_)));
                let array = if nested { nest(*element, values)? } else { Value::array(*element, values) };
                if let Some(cache) = subquery.cache {
                    self.caches.borrow_mut()[cache].array = Some(array.clone());
                }
                Ok(array)
            }
            SubqueryKind::Any { left, heads, all, negated } => {
                let left = self.eval_list(left, env)?;
                let rows = self.subquery_rows(subquery, env, usize::MAX)?;
                let members = match subquery.cache {
                    Some(cache) => self.row_members(cache, heads, *all, &rows)?,
                    None => None,
                };
                let found = match members {
                    Some(members) => self.is_among(&members, &left)?.map(|found| found != *all),
                    None => self.any_row(heads, *all, &left, &rows)?,
                };
                Ok(truth(found.map(|found| found != *negated)))
            }
        }
    }

    fn any_row(&self, heads: &[Head], all: bool, left: &[Value], rows: &TupleStore) -> Result<Truth> {
        // Rows differ where one of their columns does.
        let denied =
            if heads.len() > 1 { heads.iter().map(Head::denied).collect::<Option<Vec<_>>>() } else { None };
        let mut result = Some(all);
        let mut reading = rows.reading();
        while let Some(row) = reading.next()? {
            self.yield_point()?;
            let holds = match &denied {
                Some(equal) => self.equal(equal, left, row)?.map(|equal| !equal),
                None => self.equal(heads, left, row)?,
            };
            match holds {
                Some(value) if value != all => return Ok(Some(!all)),
                None => result = None,
                Some(_) => {}
            }
        }
        Ok(result)
    }

    /// Rows of a query that is run once, to be searched.
    fn row_members(
        &self,
        cache: usize,
        heads: &[Head],
        all: bool,
        rows: &Rows,
    ) -> Result<Option<Rc<Members>>> {
        if rows.len() < HASHED {
            return Ok(None);
        }
        let known = self.caches.borrow()[cache].members.clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let members = match deciding(heads, all) {
            Some(heads) => self.members(&heads, rows.clone())?.map(Rc::new),
            None => None,
        };
        self.caches.borrow_mut()[cache].members = Some(members.clone());
        Ok(members)
    }
}
