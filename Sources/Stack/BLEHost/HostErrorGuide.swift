import BLELinux
import BLEStack

extension HostError {
  fileprivate var guided: String {
    switch self {
    case .gatt(let error): ErrorGuide.text("\(error)", error.remedy)
    case .system(let error): ErrorGuide.text("\(error)", error.guide?.remedy)
    default: "\(self)"
    }
  }
}

extension ErrorGuide {
  /// What happened, and what to do where a table says it. Most of `HostError` says both by itself; where it only passes
  /// on what came from below, that is what a capture's `endReason` has, which is no advice.
  public static func text(of error: some Error) -> String {
    switch error {
    case let error as GATTError: text("\(error)", error.remedy)
    case let error as SystemError: text("\(error)", error.guide?.remedy)
    case let error as HostError: error.guided
    case let error as PairingError: text("\(error)", error.remedy)
    default: "\(error)"
    }
  }
}
