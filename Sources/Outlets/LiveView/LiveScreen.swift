import Recording

/// Lays out the live view: converts the state into lines for the terminal's size.
///
/// Lines are at most as long as the terminal is wide. The view is one line lower than the terminal, so that
/// the last message stays visible. On a small terminal, less important parts are omitted.
package struct LiveScreen: Sendable {
  package let width: Int
  package let height: Int
  package let characters: LiveCharacters

  /// Minimum width, in cells, of a wave beside its figures.
  private static let leastWave = 6
  /// Number of free cells after the last line, at the cursor, so that echoed keys such as `^C` do not wrap.
  private static let reserve = 4

  package init(columns: Int, rows: Int, _ characters: LiveCharacters) {
    width = max(1, columns)
    height = max(1, rows - 1)
    self.characters = characters
  }

  var words: LiveWords { LiveWords(characters) }

  package func lines(_ state: LiveState) -> [LiveLine] {
    let lines =
      switch state.devices.count {
      case 0: [last(words.search(state.search), of: state)]
      case 1: single(state, state.devices[0])
      default: group(state)
      }
    return Array(lines.prefix(height))
  }

  /// Lays out one device: name and link, its streams, its losses.
  private func single(_ state: LiveState, _ device: LiveDevice) -> [LiveLine] {
    let head = [
      line(words.title(device, state.radio), trailing: words.time(state, device.counts.samples)),
      line(words.link(device, isOver: state.isOver)),
    ]
    let foot = [
      line(words.condition(device)),
      line(words.losses(device)),
      last(words.files(state, device.byteCount, width: width - Self.reserve), of: state),
    ].filter { $0.width > 0 }
    let streams = device.streams
    let (waves, space) = heights(streams.count, spare: height - head.count - foot.count)
    var middle: [LiveLine] = []
    let columns = StreamColumns(streams, words)
    for (stream, wave) in zip(streams, waves) {
      middle += wave > 0 ? block(stream, columns, wave) : [beside(stream, columns)]
    }
    middle = Array(middle.prefix(max(0, height - head.count - foot.count)))
    return head + rule(space) + middle + rule(space) + foot
  }

  /// Lays out several devices: a few lines each, with the wave of one stream.
  private func group(_ state: LiveState) -> [LiveLine] {
    let samples = state.devices.reduce(0) { $0 + $1.counts.samples }
    let head = line(
      words.title(state.devices.count, state.radio),
      trailing: words.time(state, samples / state.devices.count))
    let byteCount = state.devices.reduce(0) { $0 + $1.byteCount }
    let foot = last(words.files(state, byteCount, width: width - Self.reserve), of: state)
    let (waves, space) = heights(state.devices.count, spare: height - 2)
    var middle: [LiveLine] = []
    let columns = StreamColumns(state.devices.compactMap(\.main), words)
    for (device, wave) in zip(state.devices, waves) {
      let figures = device.main.map { words.figures($0, columns) } ?? []
      middle.append(line(words.member(device, isOver: state.isOver) + figures))
      guard wave > 0 else { continue }
      middle +=
        device.main.map { self.wave($0, width: width, height: wave) }
        ?? [LiveLine](repeating: LiveLine(), count: wave)
    }
    middle = Array(middle.prefix(max(0, height - 2)))
    return [head] + rule(space) + middle + rule(space) + [foot]
  }

  /// Distributes lines among the waves.
  ///
  /// - Parameter spare: number of lines available for `count` lines of figures and their waves.
  /// - Returns: the height of each wave, and whether there is space for two rules. The height is 0 if no wave
  ///   fits below its figures. The first waves are one line higher if lines remain.
  private func heights(_ count: Int, spare: Int) -> (waves: [Int], space: Bool) {
    guard count > 0 else { return ([], false) }
    let rest = spare - count
    let space = rest >= 2 + count || rest == 2
    let lines = max(0, rest - (space ? 2 : 0))
    guard lines >= count else { return ([Int](repeating: 0, count: count), space) }
    return ((0..<count).map { lines / count + ($0 < lines % count ? 1 : 0) }, space)
  }

  /// Lays out the figures with the wave below them.
  private func block(_ stream: LiveStream, _ columns: StreamColumns, _ wave: Int) -> [LiveLine] {
    var figures = line(words.figures(stream, columns))
    let scale = words.scale(stream, shown: 2 * width)
    if scale.width > 0, figures.width + 2 + scale.width <= width {
      figures.pad(to: width - scale.width)
      figures.append(scale)
    }
    return [figures] + self.wave(stream, width: width, height: wave)
  }

  /// Lays out the figures with the wave next to them.
  private func beside(_ stream: LiveStream, _ columns: StreamColumns) -> LiveLine {
    var parts = words.figures(stream, columns)
    if parts.reduce(0, { $0 + $1.width + 2 }) + Self.leastWave > width, parts.count > 2 {
      parts.remove(at: 2)
    }
    var line = line(parts)
    let room = width - line.width - 2
    guard room >= Self.leastWave else { return line }
    for row in wave(stream, width: room, height: 1) where row.width > 0 {
      line.append("  ")
      line.append(row)
    }
    return line
  }

  private func wave(_ stream: LiveStream, width: Int, height: Int) -> [LiveLine] {
    guard let range = stream.range(Array(stream.wave.suffix(2 * width))) else {
      return [LiveLine](repeating: LiveLine(), count: height)
    }
    return LiveWave.draw(stream.wave, in: range, width: width, height: height, characters).map {
      LiveLine($0, .wave)
    }
  }

  private func rule(_ isThere: Bool) -> [LiveLine] {
    isThere ? [LiveLine(String(repeating: characters.line, count: width), .faint)] : []
  }

  private func last(_ part: LiveLine, of state: LiveState) -> LiveLine {
    LiveLine.fitting([part, words.hint(state)], width: max(1, width - Self.reserve), characters)
  }

  private func line(_ parts: [LiveLine], trailing: LiveLine = LiveLine()) -> LiveLine {
    LiveLine.fitting(parts, trailing: trailing, width: width, characters)
  }
}

/// Column widths for aligning the figures of several streams.
struct StreamColumns {
  var name = 0
  var count = 0
  var value = 0

  init(_ streams: [LiveStream], _ words: LiveWords) {
    for stream in streams {
      name = max(name, LiveText.width(stream.name))
      count = max(count, "\(stream.count)".count)
      value = max(value, LiveText.width(words.value(stream)))
    }
  }
}

extension LiveDevice {
  /// The stream to show if there is space for only one: the light (`ppg`), otherwise the first stream.
  var main: LiveStream? { streams.first { $0.name == "ppg" } ?? streams.first }
}
