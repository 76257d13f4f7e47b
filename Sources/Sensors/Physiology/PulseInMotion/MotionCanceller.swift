/// Removes the component of the light that the acceleration explains, by linear least squares.
///
/// The light is modelled as a weighted sum of the three axes at `lags` offsets, from `ahead` samples later to
/// four samples earlier (a finite impulse response for each axis). The weights are fitted over the last
/// seconds; the residual is the pulse. Many such adaptive filters have been published (Widrow et al.,
/// Adaptive noise cancelling, Proc. IEEE 63(12), 1975; Ram et al., A Novel Approach for Motion Artifact
/// Reduction in PPG Signals Based on AS-LMS Adaptive Filter, IEEE Trans. Instrum. Meas. 61(5), 2012). Unlike
/// these, a fit over whole blocks needs no step size. Sums are kept for each two-second block, so that fits
/// over 8 s and over 16 s can share them.
struct MotionCanceller {
  static let lags = 8
  static let ahead = 3
  static let inputs = 3 * lags
  static let blockSamples = 50
  static let blocks = 8
  /// Ridge parameter of the fit, as a fraction of the mean power of the inputs.
  static let ridgeShare = 0.01
  /// Assumed noise power of the acceleration, in g². It increases the ridge.
  static let noisePower = 1e-4
  private static let capacity = 512
  /// Number of sums per block: the upper triangle of the normal matrix, row by row, then the right side.
  private static let sums = inputs * (inputs + 1) / 2 + inputs

  /// Light samples of the grid. Sample n is at n modulo the capacity.
  private var light = [Double](repeating: 0, count: capacity)
  private var isUsed = [Bool](repeating: false, count: capacity)
  /// Accelerations x, y, z of each grid sample. Sample n is at n modulo the capacity.
  private var axes = [Double](repeating: 0, count: 3 * capacity)
  private var sums = [Double](repeating: 0, count: blocks * sums)
  private var inputs = [Double](repeating: 0, count: inputs)
  private var matrix = [Double](repeating: 0, count: inputs * inputs)
  private var weights = [Double](repeating: 0, count: inputs)
  private var taken = 0

  /// Number of light samples included in the sums: the samples received, minus `ahead`.
  var settled: Int { max(0, taken - Self.ahead) }

  mutating func reset() {
    taken = 0
    for index in sums.indices { sums[index] = 0 }
    for index in axes.indices { axes[index] = 0 }
  }

  mutating func take(_ sample: GridSample) {
    let slot = taken % Self.capacity
    light[slot] = sample.light
    isUsed[slot] = sample.origin == .measured || sample.origin == .bridged
    axes[3 * slot] = sample.x
    axes[3 * slot + 1] = sample.y
    axes[3 * slot + 2] = sample.z
    taken += 1
    if taken > Self.ahead { add(taken - 1 - Self.ahead) }
  }

  private mutating func add(_ row: Int) {
    let block = row / Self.blockSamples % Self.blocks * Self.sums
    if row.isMultiple(of: Self.blockSamples) {
      for index in block..<block + Self.sums { sums[index] = 0 }
    }
    guard isUsed[row % Self.capacity] else { return }
    Self.gather(row, axes, to: &inputs)
    Self.accumulate(inputs, light[row % Self.capacity], to: &sums, from: block)
  }

  /// Copies the accelerations that the model uses for one light sample to `inputs`.
  private static func gather(_ row: Int, _ axes: [Double], to inputs: inout [Double]) {
    let axes = axes.span
    var place = inputs.mutableSpan
    for lag in 0..<lags {
      let index = row + ahead - lag
      let slot = 3 * (index % capacity)
      for axis in 0..<3 { place[3 * lag + axis] = index >= 0 ? axes[slot + axis] : 0 }
    }
  }

  private static func accumulate(
    _ inputs: [Double], _ light: Double, to sums: inout [Double], from start: Int
  ) {
    let inputs = inputs.span
    var sums = sums.mutableSpan
    var index = start
    for row in 0..<Self.inputs {
      let value = inputs[row]
      for column in row..<Self.inputs {
        sums[index] += value * inputs[column]
        index += 1
      }
    }
    for row in 0..<Self.inputs {
      sums[index] += light * inputs[row]
      index += 1
    }
  }

  /// Writes the residual light of `window`, after a fit over the `count` blocks up to the window's end.
  mutating func residual(_ window: Range<Int>, blocks count: Int, to output: inout [Double]) {
    let end = window.upperBound / Self.blockSamples
    let start = max(0, end - count)
    collect(start..<end)
    Self.solve(&matrix, &weights)
    for row in window {
      guard isUsed[row % Self.capacity] else {
        output[row - window.lowerBound] = 0
        continue
      }
      Self.gather(row, axes, to: &inputs)
      let explained = Self.product(inputs, weights)
      output[row - window.lowerBound] = light[row % Self.capacity] - explained
    }
  }

  private static func product(_ x: [Double], _ y: [Double]) -> Double {
    let (x, y) = (x.span, y.span)
    var sum = 0.0
    for index in 0..<inputs { sum += x[index] * y[index] }
    return sum
  }

  /// Adds up the normal equations of the blocks and the ridge.
  private mutating func collect(_ range: Range<Int>) {
    let size = Self.inputs
    for index in weights.indices { weights[index] = 0 }
    for index in matrix.indices { matrix[index] = 0 }
    for block in range {
      var index = block % Self.blocks * Self.sums
      for row in 0..<size {
        for column in row..<size {
          matrix[column * size + row] += sums[index]
          index += 1
        }
      }
      for row in 0..<size {
        weights[row] += sums[index]
        index += 1
      }
    }
    var trace = 0.0
    for row in 0..<size { trace += matrix[row * size + row] }
    let rows = Double(range.count * Self.blockSamples)
    let ridge = Self.ridgeShare * trace / Double(size) + Self.noisePower * rows
    for row in 0..<size { matrix[row * size + row] += ridge }
  }

  /// Solves the equations by Cholesky decomposition of the lower triangle. `x` is the right side, and on
  /// return the solution.
  private static func solve(_ matrix: inout [Double], _ x: inout [Double]) {
    let size = inputs
    var lower = matrix.mutableSpan
    var x = x.mutableSpan
    for column in 0..<size {
      for row in column..<size {
        var sum = lower[row * size + column]
        for index in 0..<column { sum -= lower[row * size + index] * lower[column * size + index] }
        let isDiagonal = row == column
        // The ridge keeps the diagonal positive.
        lower[row * size + column] = isDiagonal ? sum.squareRoot() : sum / lower[column * size + column]
      }
    }
    for row in 0..<size {
      for index in 0..<row { x[row] -= lower[row * size + index] * x[index] }
      x[row] /= lower[row * size + row]
    }
    for row in stride(from: size - 1, through: 0, by: -1) {
      for index in row + 1..<size { x[row] -= lower[index * size + row] * x[index] }
      x[row] /= lower[row * size + row]
    }
  }

  /// Writes the light of a window without motion cancelling. The window must be within the last `capacity`
  /// samples.
  func light(_ window: Range<Int>, to output: inout [Double]) {
    for row in window {
      output[row - window.lowerBound] = isUsed[row % Self.capacity] ? light[row % Self.capacity] : 0
    }
  }

  /// Writes one axis of the acceleration in a window.
  func acceleration(_ axis: Int, _ window: Range<Int>, to output: inout [Double]) {
    for row in window { output[row - window.lowerBound] = axes[3 * (row % Self.capacity) + axis] }
  }

  /// Returns the root mean square of the acceleration of all axes over a window, in g.
  func motion(_ window: Range<Int>) -> Double {
    var sum = 0.0
    for row in window {
      let slot = 3 * (row % Self.capacity)
      for axis in 0..<3 { sum += axes[slot + axis] * axes[slot + axis] }
    }
    return (sum / Double(window.count)).squareRoot()
  }

  /// Returns the root mean square of a window's light, in counts.
  func power(_ window: Range<Int>) -> Double {
    var sum = 0.0
    for row in window { sum += light[row % Self.capacity] * light[row % Self.capacity] }
    return (sum / Double(window.count)).squareRoot()
  }
}
