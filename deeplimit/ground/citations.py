"""BibTeX entries of the theorems and methods that reports name, by short keys."""

from __future__ import annotations

from collections.abc import Iterable

from deeplimit.version import __version__

ENTRIES = {
    "deeplimit": f"""@software{{deeplimit,
  title   = {{deeplimit: residual networks and their infinite-depth limits}},
  author  = {{{{The deeplimit authors}}}},
  year    = {{2026}},
  version = {{{__version__}}},
}}""",
    "marion2025": """@article{marion2025,
  title   = {Scaling {ResNets} in the large-depth regime},
  author  = {Marion, Pierre and Fermanian, Adeline and Biau, G{\\'e}rard and Vert, Jean-Philippe},
  journal = {Journal of Machine Learning Research},
  volume  = {26},
  number  = {56},
  pages   = {1--48},
  year    = {2025},
}""",
    "cohen2021": """@inproceedings{cohen2021,
  title     = {Scaling properties of deep residual networks},
  author    = {Cohen, Alain-Sam and Cont, Rama and Rossier, Alain and Xu, Renyuan},
  booktitle = {Proceedings of the 38th International Conference on Machine Learning},
  series    = {PMLR},
  volume    = {139},
  pages     = {2039--2048},
  year      = {2021},
}""",
    "marion2024": """@inproceedings{marion2024,
  title     = {Implicit regularization of deep residual networks towards neural {ODEs}},
  author    = {Marion, Pierre and Wu, Yu-Han and Sander, Michael E. and Biau, G{\\'e}rard},
  booktitle = {International Conference on Learning Representations},
  year      = {2024},
  note      = {arXiv:2309.01213},
}""",
    "chizat2025": """@misc{chizat2025,
  title  = {The hidden width of deep {ResNets}: tight error bounds and phase diagrams},
  author = {Chizat, L{\\'e}na{\\"i}c},
  year   = {2025},
  note   = {arXiv:2509.10167},
}""",
    "hu2016": """@article{hu2016,
  title   = {Rate of convergence and asymptotic error distribution of {Euler} approximation schemes for
             fractional diffusions},
  author  = {Hu, Yaozhong and Liu, Yanghui and Nualart, David},
  journal = {The Annals of Applied Probability},
  year    = {2016},
  note    = {arXiv:1408.6471},
}""",
    "torchdiffeq": """@software{torchdiffeq,
  title  = {torchdiffeq},
  author = {Chen, Ricky T. Q.},
  year   = {2018},
  url    = {https://github.com/rtqichen/torchdiffeq},
}""",
    "davies1987": """@article{davies1987,
  title   = {Tests for {Hurst} effect},
  author  = {Davies, Robert B. and Harte, D. S.},
  journal = {Biometrika},
  volume  = {74},
  number  = {1},
  pages   = {95--101},
  year    = {1987},
  doi     = {10.1093/biomet/74.1.95},
}""",
    "kloeden1992": """@book{kloeden1992,
  title     = {Numerical Solution of Stochastic Differential Equations},
  author    = {Kloeden, Peter E. and Platen, Eckhard},
  publisher = {Springer},
  address   = {Berlin},
  year      = {1992},
}""",
    "holm1979": """@article{holm1979,
  title   = {A simple sequentially rejective multiple test procedure},
  author  = {Holm, Sture},
  journal = {Scandinavian Journal of Statistics},
  volume  = {6},
  pages   = {65--70},
  year    = {1979},
}""",
    "szekely2013": """@article{szekely2013,
  title   = {Energy statistics: a class of statistics based on distances},
  author  = {Sz{\\'e}kely, G{\\'a}bor J. and Rizzo, Maria L.},
  journal = {Journal of Statistical Planning and Inference},
  volume  = {143},
  number  = {8},
  pages   = {1249--1272},
  year    = {2013},
  doi     = {10.1016/j.jspi.2013.03.018},
}""",
    "radford2019": """@misc{radford2019,
  title  = {Language models are unsupervised multitask learners},
  author = {Radford, Alec and Wu, Jeffrey and Child, Rewon and Luan, David and Amodei, Dario and
            Sutskever, Ilya},
  year   = {2019},
  note   = {OpenAI},
}""",
    "yang2023": """@misc{yang2023,
  title  = {Tensor Programs {VI}: Feature learning in infinite-depth neural networks},
  author = {Yang, Greg and Yu, Dingli and Zhu, Chen and Hayou, Soufiane},
  year   = {2023},
  note   = {arXiv:2310.02244},
}""",
    "dey2025": """@misc{dey2025,
  title  = {Don't be lazy: {CompleteP} enables compute-efficient deep transformers},
  author = {Dey, Nolan and Zhang, Bin Claire and Noci, Lorenzo and Li, Mufan and Bordelon, Blake and
            Bergsma, Shane and Pehlevan, Cengiz and Hanin, Boris and Hestness, Joel},
  year   = {2025},
  note   = {arXiv:2505.01618},
}""",
    "bachlechner2020": """@inproceedings{bachlechner2020,
  title     = {{ReZero} is all you need: Fast convergence at large depth},
  author    = {Bachlechner, Thomas and Majumder, Bodhisattwa Prasad and Mao, Huanru Henry and
               Cottrell, Garrison W. and McAuley, Julian},
  booktitle = {Proceedings of the Thirty-Seventh Conference on Uncertainty in Artificial Intelligence},
  series    = {PMLR},
  volume    = {161},
  pages     = {1352--1361},
  year      = {2021},
  note      = {arXiv:2003.04887},
}""",
    "wang2022": """@article{wang2022,
  title   = {{DeepNet}: Scaling transformers to 1,000 layers},
  author  = {Wang, Hongyu and Ma, Shuming and Dong, Li and Huang, Shaohan and Zhang, Dongdong and
             Wei, Furu},
  journal = {IEEE Transactions on Pattern Analysis and Machine Intelligence},
  volume  = {46},
  pages   = {6761--6774},
  year    = {2024},
  note    = {arXiv:2203.00555},
}""",
    "zhang2019": """@inproceedings{zhang2019,
  title     = {Fixup initialization: Residual learning without normalization},
  author    = {Zhang, Hongyi and Dauphin, Yann N. and Ma, Tengyu},
  booktitle = {International Conference on Learning Representations},
  year      = {2019},
  note      = {arXiv:1901.09321},
}""",
}


def bibtex(sources: Iterable[str]) -> str:
    """Return the BibTeX entries of these sources, each once, with an empty line between them.

    A source is a key in `ENTRIES`, a BibTeX entry, which is returned as it is, or a line of text such as
    "Doe (2026), Theorem 1", which becomes the note of an entry.
    """
    entries = []
    for number, source in enumerate(dict.fromkeys(sources)):
        if source in ENTRIES:
            entries.append(ENTRIES[source])
        elif source.lstrip().startswith("@"):
            entries.append(source.strip())
        else:
            entries.append(f"@misc{{source{number},\n  note = {{{source}}},\n}}")
    return "\n\n".join(entries) + "\n"
