/// Recordings on which `ringtap align` is evaluated: movement and beats, offsets from milliseconds to
/// seconds, crystals from −100 to +100 ppm, connection intervals that divide the sensors' steps and intervals
/// that do not, loss, durations of 2 to 10 minutes.
package enum AlignTrials {
  private typealias Sensor = AlignTrial.Sensor

  /// In units of 1.25 ms: 15, 30, 50, 100 and 125 ms divide a second; 11.25, 48.75 and 97.5 ms do not.
  private static let intervals: [(dividing: UInt16, other: UInt16)] = [
    (12, 9), (24, 39), (40, 39), (80, 78), (100, 39),
  ]
  private static let minutes = [2, 3, 5, 10]

  /// All trials. Each has its own seed, so that it does not depend on the trials before it.
  package static var all: [AlignTrial] { movement + beats + pulse + hard }

  /// One short trial of each kind, for a test that takes seconds.
  package static var some: [AlignTrial] {
    let names = [
      "movement-2", "movement-5", "beats-0", "beats-2", "beats-5", "beats-9", "gaps-0", "regular-0",
    ]
    return all.filter { names.contains($0.name) }
  }

  private struct Draw {
    var random: SimulationRandom

    init(_ seed: Int) { random = SimulationRandom(seed: UInt64(seed) &* 7919 &+ 38) }

    /// Draws an offset in milliseconds, from a few to some thousand.
    mutating func late() -> Int {
      random.pick([random.integer(0...40), random.integer(40...900), random.integer(900...4_000)])
    }
    mutating func ppm() -> Int { random.integer(-100...100) }
  }

  /// A ring and a Polar sensor with acceleration, during a walk or bouts of walking.
  private static var movement: [AlignTrial] {
    (0..<20).map { number in
      var draw = Draw(number)
      let isDividing = number.isMultiple(of: 2)
      // 25 ticks a second fit 20 and 40 ms; 26.2 fit neither.
      let ring = Sensor(
        "ring", "ring,quiet,rate=\(isDividing ? "75" : "78.6"),late=\(draw.late()),clock-ppm=\(draw.ppm())")
      let polar = Sensor(
        number % 3 == 0 ? "polar:acc" : "polar:ecg,acc",
        "polar,rate=\(isDividing ? "1" : "9.7071"),late=\(draw.late()),clock-ppm=\(draw.ppm())")
      let cadence = draw.random.integer(90...125)
      let bout = number % 4 == 1 ? ",bout=\(draw.random.integer(15...40))" : ""
      var trial = AlignTrial(
        "movement-\(number)", isDividing ? "movement, interval divides" : "movement", [ring, polar],
        body: "motion=walk,cadence=\(cadence)\(bout),heart-rate=64-80,variability=0.06",
        seconds: 60 * minutes[number % 4])
      let interval = intervals[number / 2 % intervals.count]
      trial.interval = isDividing ? interval.dividing : interval.other
      trial.loss = [0, 0.02, 0.1][number % 3]
      trial.seed = UInt64(number + 1)
      return trial
    }
  }

  /// A strap and an ECG.
  private static var beats: [AlignTrial] {
    (0..<24).map { number in
      var draw = Draw(100 + number)
      let isDividing = number.isMultiple(of: 2)
      let strap = Sensor(
        "heart-rate",
        "heart-rate,rate=\(isDividing ? "1" : "1.0137"),late=\(draw.late()),clock-ppm=\(draw.ppm())")
      let polar = Sensor(
        "polar:ecg", "polar,rate=\(isDividing ? "1" : "9.7071"),late=\(draw.late()),clock-ppm=\(draw.ppm())")
      let low = draw.random.integer(50...90)
      let variability = [0.04, 0.06, 0.1][number % 3]
      var trial = AlignTrial(
        "beats-\(number)", isDividing ? "beats, interval divides" : "beats", [strap, polar],
        body: "heart-rate=\(low)-\(low + draw.random.integer(4...20)),variability=\(variability)",
        seconds: 60 * minutes[number % 4])
      let interval = intervals[number / 2 % intervals.count]
      trial.interval = isDividing ? interval.dividing : interval.other
      trial.loss = [0, 0.02, 0.1][number % 3]
      trial.seed = UInt64(100 + number)
      return trial
    }
  }

  /// A strap and a ring's optical stream: the offset includes the pulse transit time.
  private static var pulse: [AlignTrial] {
    (0..<4).map { number in
      var draw = Draw(200 + number)
      let strap = Sensor("heart-rate", "heart-rate,late=\(draw.late()),clock-ppm=\(draw.ppm())")
      let ring = Sensor(
        "ring", "ring,quiet,rate=\(number < 2 ? "75" : "78.6"),late=\(draw.late()),clock-ppm=\(draw.ppm())")
      var trial = AlignTrial(
        "pulse-\(number)", "beats, in light", [strap, ring], body: "heart-rate=60-74,variability=0.08",
        seconds: 60 * minutes[number % 4])
      trial.interval = intervals[number].dividing
      trial.seed = UInt64(200 + number)
      return trial
    }
  }

  /// Missing intervals, lost links, and heartbeats and steps that are perfectly regular.
  private static var hard: [AlignTrial] {
    var all: [AlignTrial] = []
    for number in 0..<8 {
      var draw = Draw(300 + number)
      let fault =
        number < 4
        ? "off-body-every=\(draw.random.integer(11...60))" : "malformed-every=\(draw.random.integer(11...60))"
      let strap = Sensor("heart-rate", "heart-rate,late=\(draw.late()),clock-ppm=\(draw.ppm()),\(fault)")
      let polar = Sensor("polar:ecg", "polar,rate=9.7071,late=\(draw.late()),clock-ppm=\(draw.ppm())")
      let low = draw.random.integer(50...90)
      var trial = AlignTrial(
        "gaps-\(number)", "beats, intervals missing", [strap, polar],
        body: "heart-rate=\(low)-\(low + 12),variability=0.06,ectopic=\(number % 4 == 3 ? "0.05" : "0")",
        seconds: 60 * minutes[number % 4])
      trial.interval = number.isMultiple(of: 2) ? 39 : 40
      trial.seed = UInt64(300 + number)
      all.append(trial)
    }
    for number in 0..<4 {
      var draw = Draw(400 + number)
      let strap = Sensor("heart-rate", "heart-rate,late=\(draw.late())")
      let polar = Sensor("polar:ecg", "polar,late=\(draw.late())")
      var trial = AlignTrial(
        "regular-\(number)", "hopeless: a regular heart", [strap, polar],
        body: "heart-rate=\(60 + number),variability=\(number < 2 ? "0" : "0.01")", seconds: 180)
      trial.isHopeless = true
      all.append(trial)
    }
    for number in 0..<4 {
      var draw = Draw(500 + number)
      // The offset is larger than the searched range.
      let late = draw.random.integer(0...500)
      let isMovement = number.isMultiple(of: 2)
      let first =
        isMovement
        ? Sensor("ring", "ring,quiet,rate=75,late=\(late)") : Sensor("heart-rate", "heart-rate,late=\(late)")
      let polar = Sensor("polar:ecg,acc", "polar,late=10000")
      var trial = AlignTrial(
        "far-\(number)", "hopeless: \(isMovement ? "movement" : "beats") beyond the search",
        isMovement ? [first, Sensor("polar:acc", "polar,late=10000")] : [first, polar],
        body: "\(isMovement ? "motion=walk," : "")heart-rate=60-\(64 + 4 * number),variability=0.06",
        seconds: 300)
      (trial.isHopeless, trial.search) = (true, 5)
      all.append(trial)
    }
    return all
  }
}
