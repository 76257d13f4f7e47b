#if !NO_ALLOCATIONS
  /// A time as text: date and time of day in UTC.
  package struct UTCText {
    private let days: Int64
    private let nanosecondsOfDay: Int64

    package init(_ nanoseconds: Int64) {
      let day: Int64 = 86_400_000_000_000
      let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: day)
      days = remainder < 0 ? quotient - 1 : quotient
      nanosecondsOfDay = remainder < 0 ? remainder + day : remainder
    }

    /// `HH:MM:SS.ffffff DD/MM/YYYY`, as in the header of a WFDB record. WFDB Applications Guide, header(5).
    package var wfdb: String {
      let date = date
      return "\(clock(digits: 6)) \(digits(date.day, 2))/\(digits(date.month, 2))/\(digits(date.year, 4))"
    }

    /// `YYYY-MM-DDTHH:MM:SS.ffffffZ`. RFC 3339.
    package var rfc3339: String { "\(day)T\(clock(digits: 6))Z" }

    /// `YYYY-MM-DD HH:MM:SS.fff UTC`.
    package var iso: String { "\(day) \(clock(digits: 3)) UTC" }

    private var day: String {
      let date = date
      return "\(digits(date.year, 4))-\(digits(date.month, 2))-\(digits(date.day, 2))"
    }

    /// Time of day with a truncated fraction of this many digits.
    private func clock(digits count: Int) -> String {
      let seconds = nanosecondsOfDay / 1_000_000_000
      let fraction = digits(nanosecondsOfDay % 1_000_000_000, 9).prefix(count)
      return
        "\(digits(seconds / 3600, 2)):\(digits(seconds / 60 % 60, 2)):\(digits(seconds % 60, 2)).\(fraction)"
    }

    /// The Gregorian date, computed with years of 365.2425 days that begin in March, so that the leap day is
    /// the last day.
    private var date: (year: Int64, month: Int64, day: Int64) {
      let shifted = days + 719_468
      let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
      let dayOfEra = shifted - era * 146_097
      let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
      let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
      let monthFromMarch = (5 * dayOfYear + 2) / 153
      let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
      let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
      return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    private func digits(_ number: Int64, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
  }
#endif
