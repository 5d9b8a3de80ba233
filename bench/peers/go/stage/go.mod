module dlo.bench/stage

go 1.24
