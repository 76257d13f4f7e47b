/// The result of one check of `ringtap doctor`.
public struct DoctorFinding: Hashable, Sendable {
  public enum Check: String, CaseIterable, Hashable, Sendable {
    case bluetooth, networkNamespace, capabilities, confinement, rfkill, adapters, adapterState, holders,
      scan, advertising, links
    case kernelVersion, emulation, folder, clock, timeStamps, drops
  }

  public enum State: String, Hashable, Sendable {
    case good
    /// A fact worth knowing. The program can still reach devices.
    case note
    /// A problem that prevents the program from reaching devices.
    case obstacle
  }

  public let check: Check
  public let state: State
  public let finding: String
  public let cause: String?
  /// The command to run, or another remedy.
  public let nextStep: String?

  public init(
    _ check: Check, _ state: State, _ finding: String, cause: String? = nil, nextStep: String? = nil
  ) {
    precondition(
      state == .good || cause != nil && nextStep != nil, "what is wrong has a cause and a next step")
    self.check = check
    self.state = state
    self.finding = finding
    self.cause = cause
    self.nextStep = nextStep
  }
}
