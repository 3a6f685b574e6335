//! State that the tasks of one daemon share from one start or reload to the next: who has a device, which outputs exist, which alarms. Each
//! kind keeps its own type here, so nothing is kept globally by the process. A mutex guards it: not for a hot thread.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::{any, fmt};

/// A value, with the name of its type.
type Named = (&'static str, Arc<dyn Any + Send + Sync>);

/// One value of each requested type.
#[derive(Default)]
pub(crate) struct Common(Mutex<HashMap<TypeId, Named>>);

impl Common {
    /// The value of this type, created at the first request.
    pub(crate) fn of<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, one) = all.entry(TypeId::of::<T>()).or_insert_with(|| (any::type_name::<T>(), Arc::<T>::default()));
        let Ok(one) = one.clone().downcast() else { unreachable!("it is found by its type") };
        one
    }
}

impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(all.values().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_of_each_type_in_each_of_them() {
        let (one, other) = (Common::default(), Common::default());
        *one.of::<Mutex<u32>>().lock().unwrap() = 7;
        *one.of::<Mutex<i32>>().lock().unwrap() = -7;
        assert_eq!((*one.of::<Mutex<u32>>().lock().unwrap(), *one.of::<Mutex<i32>>().lock().unwrap()), (7, -7));
        assert_eq!(*other.of::<Mutex<u32>>().lock().unwrap(), 0);
    }
}
