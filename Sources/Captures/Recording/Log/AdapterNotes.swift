import BLEPacketLog

/// The latest monitor notes of each present adapter. They are repeated at the start of each further file, so
/// that every file of a series can be read alone.
struct AdapterNotes {
  /// Number of adapters whose notes are kept. By default the kernel supports at most 16 adapters.
  private static let limit = 64

  private struct Note {
    var record: MonitorRecordHeader
    var payload: [UInt8]
  }

  private var notes: [Note] = []

  mutating func take(_ record: MonitorRecordHeader, _ payload: Span<UInt8>) {
    switch record.opcode {
    case MonitorAdapterNote.newIndex, MonitorAdapterNote.deletedIndex:
      notes.removeAll { $0.record.adapter == record.adapter }
      guard record.opcode == MonitorAdapterNote.newIndex else { return }
    case MonitorAdapterNote.openIndex, MonitorAdapterNote.indexInformation:
      notes.removeAll { $0.record.adapter == record.adapter && $0.record.opcode == record.opcode }
    case MonitorAdapterNote.closeIndex:
      notes.removeAll {
        $0.record.adapter == record.adapter && $0.record.opcode == MonitorAdapterNote.openIndex
      }
      return
    default: return
    }
    guard notes.count < 3 * Self.limit else { return }
    notes.append(Note(record: record, payload: payload.indices.map { payload[$0] }))
  }

  /// Calls `body` with each note, in order of arrival.
  func forEach(_ body: (MonitorRecordHeader, Span<UInt8>) -> Void) {
    for note in notes {
      let payload = note.payload
      body(note.record, payload.span)
    }
  }
}
