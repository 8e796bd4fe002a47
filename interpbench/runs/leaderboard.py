"""x"""


def write_leaderboard(records, folder):
    return folder
