"""A Spark driver whose writes and runs fail.

    failures.py URL FOLDER

The program prints the texts of the errors. FOLDER has a module ``only_here`` that executors cannot import.
"""

import json
import sys

from holdfast.app import Holdfast
from holdfast.spark import run_queue, session


def main(url, folder):
    spark = session("local[2,2]")  # a Spark task is tried twice
    bad = spark.sql("select if(id = 3, double('NaN'), 1.0d) as x from range(5)")
    sink = bad.write.format("holdfast").mode("append")
    results = {
        "rows": [error_of(sink.options(url=url, type="t").save) for _ in range(2)],
        "option": error_of(sink.options(typ="t").save),
    }
    sys.path.append(folder)
    import only_here

    app = Holdfast(url)
    app.handler("t")(only_here.handle).enqueue()
    results["module"] = error_of(lambda: run_queue(app, spark=spark, slots=1))
    app.close()
    spark.stop()
    print(json.dumps(results))


def error_of(call):
    try:
        call()
    except Exception as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    main(*sys.argv[1:])
