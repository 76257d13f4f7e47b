package import BLEStack
import Synchronization

/// Bonds in memory, for the duration of a test.
package final class KeptBonds: BondStore {
  private let kept = Mutex<[StoredBond]>([])

  package init() {}

  package func bonds() -> [StoredBond] { kept.withLock { $0 } }
  package func forgetAll() { kept.withLock { $0 = [] } }

  package func keep(_ bond: StoredBond) {
    kept.withLock { kept in
      kept.removeAll { $0.device == bond.device }
      kept.append(bond)
    }
  }
}
