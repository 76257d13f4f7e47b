import BLEEmulation
import BLESensors
import BLEWire
import Testing

@Suite struct VirtualPeripheralSpecificationTests {
  typealias Specification = VirtualPeripheralSpecification

  @Test func ring() throws {
    let plain = try Specification(parsing: "ring")
    #expect(plain == Specification(.ring))
    let rings = plain.makePeripherals().compactMap { $0 as? EmulatedRing }
    #expect(rings.count == 1)
    #expect(rings.first?.configuration.name == "R02_A1B2")
    #expect(rings.first?.configuration.notificationsPerSecond == 300)

    let all = try Specification(parsing: "ring,rate=12.5,real-time,count=90,loss=0.05,extended,devices=16")
    let air = all.makeAir()
    #expect(air.configuration.pace == .air)
    #expect(air.configuration.packetErrorRate == 0.05)
    #expect(all.makeController().configuration.commandSet == .extended)
    let sixteen = air.peripherals.compactMap { $0 as? EmulatedRing }.map(\.configuration)
    #expect(sixteen.count == 16)
    #expect(sixteen.first?.name == "R02_0001")
    #expect(sixteen.last?.name == "R02_0016")
    #expect(sixteen.first?.address.description == "70:CB:0D:00:00:01")
    #expect(sixteen.last?.address.description == "70:CB:0D:00:00:10")
    #expect(sixteen.allSatisfy { $0.notificationsPerSecond == 12.5 && $0.notificationLimit == 90 })
  }

  @Test func ringThatIsAsked() throws {
    let text = "ring,history=31,all-features,late-replies=250,wrong-checksum=5,cut-logs=10"
    let asked = try Specification(parsing: text + ",foreign-replies,unasked,repeat-frames")
    let ring = try #require(asked.makePeripherals().compactMap { $0 as? EmulatedRing }.first).configuration
    #expect(ring.history?.dayCount == 31)
    #expect(ring.features == .all)
    #expect(ring.replyFaults.delay == .milliseconds(250))
    #expect(ring.replyFaults.wrongChecksumEvery == 5)
    #expect(ring.replyFaults.logFrameLimit == 10)
    #expect(ring.replyFaults.foreignReplies && ring.replyFaults.unaskedFrames)
    #expect(ring.replyFaults.repeatedFrames)
    #expect(try Specification(parsing: "ring").replyFaults == RingReplyFaults())
  }

  @Test func wearers() throws {
    let text = "ring,bout=60,motion=run,heart-rate=120-150,cadence=172.5,ectopic=0.02,perfusion=0.4"
    let worn = try Specification(parsing: text + ",lifted-every=90,taken-off-after=600,sleeps-after=30")
    let ring = try #require(worn.makePeripherals().compactMap { $0 as? EmulatedRing }.first).configuration
    var wanted = Wearer()
    (wanted.beatsPerMinute, wanted.ectopicShare) = (120...150, 0.02)
    (wanted.motion, wanted.stepsPerMinute, wanted.boutSeconds) = (.run, 172.5, 60)
    (wanted.perfusion, wanted.liftedEverySeconds, wanted.takenOffAfterSeconds) = (0.4, 90, 600)
    #expect(ring.wearer == wanted && ring.sleepsAfter == .seconds(30))
    #expect(try Specification(parsing: "ring").wearer == nil)

    let both = try Specification(parsing: "heart-rate,heart-rate=60+polar,variability=0.1,ectopic=0.5")
    let rhythms = both.makePeripherals().compactMap { $0 as? EmulatedSensor }.map {
      ($0.model as? StrapModel)?.rhythm ?? ($0.model as? PolarModel)?.rhythm
    }
    var polar = HeartRhythm()
    (polar.breathingShare, polar.slowShare, polar.ectopicShare) = (0.06, 0.04, 0.5)
    #expect(rhythms == [HeartRhythm(beatsPerMinute: 60...60), polar])
    #expect(
      try Specification(parsing: "polar").makePeripherals().compactMap { $0 as? EmulatedSensor }
        .map { ($0.model as? PolarModel)?.rhythm } == [HeartRhythm()])
  }

  @Test func source() throws {
    let source = try Specification(parsing: "source,payload=244,real-time")
    let sources = source.makePeripherals().compactMap { $0 as? EmulatedSource }
    #expect(sources.map(\.configuration.payloadByteCount) == [244])
    #expect(sources.first?.configuration.notificationsPerSecond == nil)
    #expect(source.pace == .air)
  }

  @Test func sensors() throws {
    let text =
      "core,rate=5,count=9,malformed-every=4,disconnect-after=8,off-body-every=3,fahrenheit,devices=2"
    let cores = try Specification(parsing: text).makePeripherals().compactMap { $0 as? EmulatedSensor }
    #expect(cores.map(\.model.name) == ["CORE 0001", "CORE 0002"])
    #expect(cores.map(\.model.address.description) == ["70:CB:0D:00:00:01", "70:CB:0D:00:00:02"])
    #expect(cores.allSatisfy { ($0.model as? CoreModel)?.unit == .fahrenheit })
    var wanted = EmulatedSensor.Configuration()
    wanted.ticksPerSecond = 5
    (wanted.valueLimit, wanted.malformedEvery, wanted.disconnectAfter, wanted.offBodyEvery) = (9, 4, 8, 3)
    #expect(cores.allSatisfy { $0.configuration == wanted })

    let strap = try Specification(parsing: "heart-rate").makePeripherals().compactMap {
      $0 as? EmulatedSensor
    }
    #expect(strap.map(\.model.name) == ["ringtap strap"])
    #expect(strap.first?.configuration.ticksPerSecond == 1)
    #expect(try Specification(parsing: "thermometer").makePeripherals().count == 1)
    #expect(try Specification(parsing: "polar").makePeripherals().count == 1)
  }

  @Test(arguments: [
    ("", "''"), ("strap", "'strap'; there are ring, source, heart-rate, thermometer, core, cycling, polar"),
    ("ring,", "'' is no option"),
    ("ring,payload=20", "'payload=20' is no option of virtual:ring"), ("ring,rate", "'rate' is no option"),
    ("ring,rate=0", "'rate=0': 0.001 … 1000000 a second is wanted"), ("ring,rate=x", "'rate=x'"),
    ("ring,rate=nan", "'rate=nan'"),
    ("ring,devices=65", "1 … 64"), ("ring,count=0", "'count=0': a whole number, 1 …, is wanted"),
    ("heart-rate,payload=20", "'payload=20' is no option of virtual:heart-rate"),
    ("polar,fahrenheit", "'fahrenheit' is no option"),
    ("ring,off-body-every=2", "'off-body-every=2' is no option"),
    ("source,payload=3", "4 … 512"), ("source,real-time=1", "'real-time=1' is no option"),
    ("ring,loss=2,real-time", "0 … 1"), ("ring,loss=0.1", "loss needs real-time"),
    ("ring,history=32", "1 … 31"), ("ring,unasked=1", "'unasked=1' is no option"),
    ("ring,heart-rate=80-70", "beats a minute, 30 … 220, such as 72 or 64-80, is wanted"),
    ("ring,heart-rate=20", "30 … 220"), ("ring,heart-rate=", "30 … 220"),
    ("polar,heart-rate=60-", "30 … 220"),
    ("ring,motion=fly", "'motion=fly': one of rest, walk, run is wanted"), ("ring,motion", "is no option"),
    ("ring,ectopic=0.6", "0 … 0.5 is wanted"), ("ring,variability=nan", "0 … 0.4"),
    ("ring,cadence=10", "30 … 240"), ("ring,bout=1", "5 … 86400"), ("ring,perfusion=2", "0 … 1 is wanted"),
    ("ring,lifted-every=6", "10 … 86400"), ("ring,sleeps-after=0", "seconds above 0"),
    ("heart-rate,motion=walk", "'motion=walk' is no option of virtual:heart-rate"),
    ("core,heart-rate=60", "'heart-rate=60' is no option of virtual:core"),
    ("polar,sleeps-after=3", "'sleeps-after=3' is no option"),
    ("source,history=7", "'history=7' is no option of virtual:source"),
  ])
  func errors(text: String, message: String) {
    do throws(Specification.ParseError) {
      _ = try Specification(parsing: text)
      Issue.record("\(text) was taken")
    } catch { #expect(error.description.contains(message)) }
  }

  /// Each option of each kind is known with a value, or without one, and not otherwise; numbers have a range.
  @Test func optionsAreAsListed() throws {
    let words: Set<String> = ["name"]
    for kind in Specification.Kind.allCases {
      for option in VirtualOption.options(of: kind) {
        let text = "\(kind.rawValue),\(option.name)"
        if option.value == nil {
          let needsSecurity = option.name == "legacy-pairing" ? ",security=encrypted" : ""
          #expect(throws: Never.self, "\(text)") { try Specification(parsing: text + needsSecurity) }
          #expect(throws: Specification.ParseError.self, "\(text)") {
            try Specification(parsing: text + "=1")
          }
        } else {
          #expect(throws: Specification.ParseError.self, "\(text)") { try Specification(parsing: text) }
          for value in ["", "junk", "-501", "nan", "1e300", "18446744073709551616"]
          where !words.contains(option.name) {
            #expect(throws: Specification.ParseError.self, "\(text)=\(value)") {
              try Specification(parsing: "\(text)=\(value)")
            }
          }
        }
      }
      for option in VirtualOption.all where !option.kinds.contains(kind) {
        let text = "\(kind.rawValue),\(option.name)" + (option.value == nil ? "" : "=1")
        #expect(throws: Specification.ParseError.self, "\(text)") { try Specification(parsing: text) }
      }
    }
  }

  @Test func namesAndAddresses() throws {
    let text =
      "ring,name=Left,address=C4:12:34:56:78:9A,address-type=random,rings=2,advertising-interval=1000"
    let rings = try Specification(parsing: text).makePeripherals().compactMap { $0 as? EmulatedRing }
    #expect(rings.map(\.configuration.name) == ["Left", "R02_0002"])
    #expect(rings.map(\.configuration.address.description) == ["C4:12:34:56:78:9A", "C4:12:34:56:78:9B"])
    #expect(rings.allSatisfy { $0.configuration.address.type == .random })
    #expect(rings.allSatisfy { $0.configuration.advertisingInterval == .seconds(1) })
    let core = try Specification(parsing: "core,unit=fahrenheit,name=A+core", adding: [("rate", "7")])
    let sensors = core.makePeripherals().compactMap { $0 as? EmulatedSensor }
    #expect(sensors.map(\.model.name) == ["A", "CORE A1:B2"])
    #expect(sensors.map(\.configuration.ticksPerSecond) == [7, 7])
    #expect(sensors.map { ($0.model as? CoreModel)?.unit } == [.fahrenheit, .celsius])
  }
}
