//! Orders of the steps of several sessions.

/// All of them, or `most` chosen evenly (always the same ones) if there are more.
pub fn orders(lengths: &[usize], most: usize) -> (Vec<Vec<usize>>, bool) {
    let count = count(lengths);
    if count <= most as u64 {
        let mut all = Vec::new();
        extend(&mut lengths.to_vec(), &mut Vec::new(), &mut all);
        return (all, true);
    }
    // One of each stretch of the list of all orders.
    let place = |n: usize| (n as u128 * u128::from(count) / most as u128) as u64;
    ((0..most).map(|n| nth(lengths, place(n))).collect(), false)
}

/// How many there are.
fn count(lengths: &[usize]) -> u64 {
    let (mut total, mut count) = (0u64, 1u64);
    for length in lengths {
        for n in 1..=*length as u64 {
            total += 1;
            count = count * total / n;
        }
    }
    count
}

fn extend(left: &mut Vec<usize>, order: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    if left.iter().all(|left| *left == 0) {
        all.push(order.clone());
    }
    for session in 0..left.len() {
        if left[session] > 0 {
            left[session] -= 1;
            order.push(session);
            extend(left, order, all);
            order.pop();
            left[session] += 1;
        }
    }
}

/// The order at this place of the list of all.
fn nth(lengths: &[usize], mut place: u64) -> Vec<usize> {
    let (mut left, mut order) = (lengths.to_vec(), Vec::new());
    while left.iter().any(|left| *left > 0) {
        for session in 0..left.len() {
            if left[session] == 0 {
                continue;
            }
            left[session] -= 1;
            let below = count(&left);
            if place < below {
                order.push(session);
                break;
            }
            place -= below;
            left[session] += 1;
        }
    }
    order
}

#[test]
fn the_nth_order_is_that_of_the_list() {
    let (all, whole) = orders(&[3, 2, 2], 1000);
    assert!(whole && all.len() == 210);
    assert!((0..210).all(|place| nth(&[3, 2, 2], place as u64) == all[place]));
    assert_eq!(orders(&[3, 2, 2], 70).0.len(), 70);
}
