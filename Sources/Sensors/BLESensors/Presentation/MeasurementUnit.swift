/// Unit of a value: a 16-bit UUID of Bluetooth Assigned Numbers, 3.5. Unknown units are kept.
public struct MeasurementUnit: RawRepresentable, Hashable, Sendable {
  public let rawValue: UInt16
  public init(rawValue: UInt16) { self.rawValue = rawValue }

  /// Symbol to write after a number; empty for a number without a unit, the UUID for an unknown unit.
  public var symbol: String {
    switch rawValue {
    case 0x2700, 0x271D, 0x271E: ""
    case 0x2701...0x2735: siSymbol
    case 0x2740...0x2757: derivedSymbol
    default: otherSymbol
    }
  }

  /// Symbol of a base unit or of a derived unit with its own name.
  private var siSymbol: String {
    switch rawValue {
    case 0x2701: "m"
    case 0x2702: "kg"
    case 0x2703: "s"
    case 0x2704: "A"
    case 0x2705: "K"
    case 0x2706: "mol"
    case 0x2707: "cd"
    case 0x2710: "m²"
    case 0x2711: "m³"
    case 0x2712: "m/s"
    case 0x2713: "m/s²"
    case 0x2714: "1/m"
    case 0x2715: "kg/m³"
    case 0x2716: "kg/m²"
    case 0x2717: "m³/kg"
    case 0x2718: "A/m²"
    case 0x2719: "A/m"
    case 0x271A: "mol/m³"
    case 0x271B: "kg/m³"
    case 0x271C: "cd/m²"
    case 0x2720: "rad"
    case 0x2721: "sr"
    case 0x2722: "Hz"
    case 0x2723: "N"
    case 0x2724: "Pa"
    case 0x2725: "J"
    case 0x2726: "W"
    case 0x2727: "C"
    case 0x2728: "V"
    case 0x2729: "F"
    case 0x272A: "Ω"
    case 0x272B: "S"
    case 0x272C: "Wb"
    case 0x272D: "T"
    case 0x272E: "H"
    case 0x272F: "°C"
    case 0x2730: "lm"
    case 0x2731: "lx"
    case 0x2732: "Bq"
    case 0x2733: "Gy"
    case 0x2734: "Sv"
    case 0x2735: "kat"
    default: unknown
    }
  }

  /// Symbol of a derived unit without its own name.
  private var derivedSymbol: String {
    switch rawValue {
    case 0x2740: "Pa·s"
    case 0x2741: "N·m"
    case 0x2742: "N/m"
    case 0x2743: "rad/s"
    case 0x2744: "rad/s²"
    case 0x2745: "W/m²"
    case 0x2746: "J/K"
    case 0x2747: "J/(kg·K)"
    case 0x2748: "J/kg"
    case 0x2749: "W/(m·K)"
    case 0x274A: "J/m³"
    case 0x274B: "V/m"
    case 0x274C: "C/m³"
    case 0x274D: "C/m²"
    case 0x274E: "C/m²"
    case 0x274F: "F/m"
    case 0x2750: "H/m"
    case 0x2751: "J/mol"
    case 0x2752: "J/(mol·K)"
    case 0x2753: "C/kg"
    case 0x2754: "Gy/s"
    case 0x2755: "W/sr"
    case 0x2756: "W/(m²·sr)"
    case 0x2757: "kat/m³"
    default: unknown
    }
  }

  /// Symbol of a unit outside the SI.
  private var otherSymbol: String {
    switch rawValue {
    case 0x2760: "min"
    case 0x2761: "h"
    case 0x2762: "d"
    case 0x2763: "°"
    case 0x2764: "′"
    case 0x2765: "″"
    case 0x2766: "ha"
    case 0x2767: "l"
    case 0x2768: "t"
    case 0x2780: "bar"
    case 0x2781: "mmHg"
    case 0x2782: "Å"
    case 0x2783: "nmi"
    case 0x2784: "b"
    case 0x2785: "kn"
    case 0x2786: "Np"
    case 0x2787: "B"
    case 0x27A0: "yd"
    case 0x27A1: "pc"
    case 0x27A2: "in"
    case 0x27A3: "ft"
    case 0x27A4: "mi"
    case 0x27A5: "psi"
    case 0x27A6: "km/h"
    case 0x27A7: "mph"
    case 0x27A8: "1/min"
    case 0x27A9: "cal"
    case 0x27AA: "kcal"
    case 0x27AB: "kWh"
    case 0x27AC: "°F"
    case 0x27AD: "%"
    case 0x27AE: "‰"
    case 0x27AF: "bpm"
    case 0x27B0: "Ah"
    case 0x27B1: "mg/dl"
    case 0x27B2: "mmol/l"
    case 0x27B3: "a"
    case 0x27B4: "months"
    case 0x27B5: "1/m³"
    case 0x27B6: "W/m²"
    case 0x27B7: "ml/(kg·min)"
    case 0x27B8: "lb"
    default: unknown
    }
  }

  private var unknown: String {
    let digits = String(rawValue, radix: 16)
    return "unit 0x" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
  }
}
