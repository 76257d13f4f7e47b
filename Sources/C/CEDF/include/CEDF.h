// EDFlib: files of EDF+ and BDF+, which physiological software reads. And what Swift cannot see of it.
#pragma once

#include <edflib.h>
#include <stdint.h>

/// Closes a file that was written, and reads its head again: EDFlib does not tell of a disk that got full at the end, and
/// the structure that a head is read into is too large for Swift's importer.
///
/// Returns the data records that the file has, or -1.
int64_t ringtap_edf_finish(int file, const char *path);
