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
  /// Returns an error's description, followed by a remedy if a table has one.
  ///
  /// Most descriptions of `HostError` already include a remedy. The description of an error from a lower
  /// layer does not, because it is also used as a capture's `endReason`.
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
