//! Chance from a seed: xoshiro256**, seeded by splitmix64 (Blackman and Vigna, prng.di.unimi.it). By hand, because a seed must
//! mean the same run for as long as somebody may want to replay it.

#[derive(Clone, Debug)]
pub struct Chance([u64; 4]);

impl Chance {
    pub fn from_seed(seed: u64) -> Chance {
        let mut state = seed;
        Chance(std::array::from_fn(|_| splitmix(&mut state)))
    }

    pub fn draw(&mut self) -> u64 {
        let s = &mut self.0;
        let drawn = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        drawn
    }

    /// Another source, independent of what this one gives later.
    pub fn fork(&mut self) -> Chance {
        Chance::from_seed(self.draw())
    }

    /// From 0 to `bound` - 1. The bias of the remainder is of no importance here.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is nothing below zero");
        self.draw() % bound
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    pub fn permille(&mut self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.below(1000) < u64::from(of_thousand)
    }

    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// An index, each as likely as its weight is great.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().map(|weight| u64::from(*weight)).sum());
        for (index, weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(*weight)) {
                None => return index,
                Some(rest) => left = rest,
            }
        }
        unreachable!("what was drawn is below the sum")
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_numbers() {
        // The reference implementation of splitmix64 with state 0.
        let mut state = 0;
        assert_eq!(splitmix(&mut state), 0xE220_A839_7B1D_CDAF);
        assert_eq!(splitmix(&mut state), 0x6E78_9E6A_A1B9_65F4);
        // The reference implementation of xoshiro256** with state 1, 2, 3, 4.
        let mut chance = Chance([1, 2, 3, 4]);
        assert_eq!([chance.draw(), chance.draw(), chance.draw()], [11520, 0, 1509978240]);
    }

    #[test]
    fn weights_are_kept() {
        let mut chance = Chance::from_seed(1);
        let mut drawn = [0; 3];
        (0..1000).for_each(|_| drawn[chance.weighted(&[1, 0, 9])] += 1);
        assert!(drawn[0] > 50 && drawn[1] == 0 && drawn[2] > 800, "{drawn:?}");
    }
}
