from unstale.report.html.tables import decimal, whole


def test_numbers_for_people():
    assert decimal(None) == decimal(float("nan")) == whole(None) == "–"
    assert decimal(0.856, 2) == "0.86"
    assert decimal(1234.5, 1) == "1,234.5"
    assert whole(72.33) == "72.3"
    assert whole(1383.3) == "1,383"
    assert whole(12.0) == "12"
