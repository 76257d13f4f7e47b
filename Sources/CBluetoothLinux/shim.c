#include "CBluetoothLinux.h"
