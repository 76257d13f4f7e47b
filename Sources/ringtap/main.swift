print("ringtap")
