package import BLEStack
import Synchronization

/// Bonds for as long as a test takes.
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
